//! The lines that were left out because they have too many fields.

use std::sync::{Mutex, MutexGuard, PoisonError};

use traind_wording::counted;

use super::OnBadLines;

/// Lines that a warning names.
const NAMED_MAX: usize = 5;

/// Counts the lines that the last reading of a file left out.
pub(super) struct BadLines {
    handling: OnBadLines,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    count: u64,
    first: Vec<u64>,
}

impl BadLines {
    pub(super) fn new(handling: OnBadLines) -> Self {
        Self { handling, found: Mutex::default() }
    }

    /// Starts to count anew.
    pub(super) fn begin(&self) {
        *self.found() = Found::default();
    }

    /// Counts a line. Its number, which takes time, is asked for only of the first ones.
    pub(super) fn add(&self, line: impl FnOnce() -> Option<u64>) {
        let mut found = self.found();
        found.count += 1;
        if self.handling == OnBadLines::Warn && found.first.len() < NAMED_MAX {
            found.first.extend(line());
        }
    }

    /// The warning about them, if there is one.
    pub(super) fn warning(&self) -> Option<String> {
        let found = self.found();
        if self.handling != OnBadLines::Warn || found.count == 0 {
            return None;
        }
        let named: Vec<String> = found.first.iter().map(u64::to_string).collect();
        let more = if found.count > found.first.len() as u64 { ", …" } else { "" };
        let lines = counted(found.count, "line");
        Some(format!("left out {lines} with too many fields (line {}{more})", named.join(", ")))
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
