//! The opened files of a part of a set.

use super::SplitRange;
use crate::error::Result;
use crate::source::Source;

/// The opened files of a part of a set.
pub(in crate::dataset) struct SourcePart {
    pub(in crate::dataset) source: Source,
    pub(in crate::dataset) set: usize,
    /// The number of its first file among those of all parts.
    pub(in crate::dataset) first_file: usize,
    pub(super) range: SplitRange,
}

impl SourcePart {
    /// The number of rows of each of its files.
    pub(super) fn count(&self) -> Result<Vec<u64>> {
        let mut counts = vec![0; self.source.files().len()];
        let column: Vec<&str> = self.source.columns().iter().map(String::as_str).take(1).collect();
        for part in self.source.parts() {
            counts[part.file] += self.source.read(part, &column, &mut |_| Ok(()))?;
        }
        Ok(counts)
    }

    /// The rows of the part that are read, first and one behind the last. `counts` are the rows of all
    /// files where they are known.
    pub(super) fn rows(&self, counts: Option<&[u64]>) -> Result<(u64, u64)> {
        let files = self.first_file..self.first_file + self.source.files().len();
        let count = counts.map(|counts| counts[files].iter().sum());
        // An open end is beyond all rows.
        self.range.rows(count.unwrap_or(i64::MAX as u64))
    }
}
