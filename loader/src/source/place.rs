//! The place of a record, which takes less memory and time than its location.

use super::{Part, Records};

/// A part, a row of it, and the start of that in its format's own terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(super) part: Part,
    pub(super) row: u64,
    pub(super) mark: Option<u64>,
}

impl Place {
    pub(super) fn new(part: Part, records: &Records, record: usize) -> Place {
        Place { part, row: records.row(record), mark: records.mark(record) }
    }
}
