//! Masks and tables that some layers of a model have in common, such as those with a window.

use crate::error::Result;

/// A value for each kind of layer, such as the mask for each window.
#[derive(Debug)]
pub(crate) struct ByKind<'a, K, V> {
    values: Vec<(&'a K, V)>,
}

impl<'a, K: PartialEq, V> ByKind<'a, K, V> {
    /// Traces the value of each kind that is among `kinds`, once.
    pub(crate) fn new(
        kinds: impl IntoIterator<Item = &'a K>,
        trace: impl Fn(&'a K) -> Result<V>,
    ) -> Result<ByKind<'a, K, V>> {
        let mut values: Vec<(&K, V)> = Vec::new();
        for kind in kinds {
            if values.iter().all(|(known, _)| *known != kind) {
                values.push((kind, trace(kind)?));
            }
        }
        Ok(ByKind { values })
    }

    /// The value of a kind that was among those it was made of.
    pub(crate) fn get(&self, kind: &K) -> &V {
        let own = self.values.iter().find(|(known, _)| *known == kind);
        &own.expect("the kind is one of the traced layers").1
    }
}
