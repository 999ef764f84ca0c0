//! Distinct labels by number: columns repeat few labels many times, so each is kept once and
//! represented by a number until the whole column determines its id.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use super::raw::RawLabel;

/// Gives each distinct label a number, in the order in which threads happen to meet them.
#[derive(Default)]
pub(super) struct Interner {
    known: RwLock<HashMap<RawLabel, u32>>,
}

impl Interner {
    pub(super) fn number(&self, label: RawLabel) -> u32 {
        // A panic of another thread leaves at worst a label that no row uses.
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = known.get(&label) {
            return number;
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let next = known.len() as u32;
        *known.entry(label).or_insert(next)
    }

    /// The number of distinct labels.
    pub(super) fn len(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// All labels, each at its number.
    pub(super) fn labels(&self) -> Vec<RawLabel> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut labels: Vec<(u32, RawLabel)> =
            known.iter().map(|(label, &number)| (number, label.clone())).collect();
        labels.sort_unstable_by_key(|(number, _)| *number);
        labels.into_iter().map(|(_, label)| label).collect()
    }
}
