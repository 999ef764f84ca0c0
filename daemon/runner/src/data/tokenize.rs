//! Tokenizes one split, which may take hours, and reports progress and result.

use traind_loader::{OpenSet, Prepared, SetStats, TextTokenizer, TokenizedSet};
use traind_wording::counted;

use super::{DOUBTFUL_LABELS, report};
use crate::error::RunResult;
use crate::reporting::{Journal, RowsSoFar, Stop};

const TRAIN: &str = "train";

/// Tokenizes a split until the run is to stop.
#[derive(Clone, Debug)]
pub(super) struct Tokenizing {
    /// `train`, `validation` or `test`.
    pub split: &'static str,
    pub journal: Journal,
    pub stop: Stop,
}

impl Tokenizing {
    /// Tokenizes all rows as long as they are wanted, unless they are in the cache.
    pub(super) fn prepare(
        &self,
        open: OpenSet,
        tokenizer: &dyn TextTokenizer,
        is_wanted: impl Fn() -> bool,
    ) -> RunResult<Prepared> {
        let mut so_far = RowsSoFar::new(&self.journal);
        let mut watch = |rows: u64| {
            let line = || format!("{} data: {} tokenized", self.split, counted(rows, "row"));
            so_far.report(line).is_ok() && self.stop.reason().is_none() && is_wanted()
        };
        if let (TRAIN, Some((file, column))) = (self.split, open.unread_label()) {
            let about = format!("{}: column {column:?} is not read by the loss", file.display());
            self.journal.warn("LABELS_UNREAD", format!("{} data: {about}", self.split))?;
        }
        let prepared = open.prepare(tokenizer, &mut watch)?;
        if let Some(about) = prepared.set.about_rows_without_text() {
            self.journal.warn("EMPTY_TEXT", format!("{} data: {about}", self.split))?;
        }
        if let Some(about) = prepared.set.about_rows_too_long() {
            self.journal.warn("ROWS_TOO_LONG", format!("{} data: {about}", self.split))?;
        }
        for warning in prepared.set.row_warnings() {
            self.journal.warn("ROWS_LEFT_OUT", format!("{} data: {warning}", self.split))?;
        }
        for about in prepared.set.about_doubtful_labels() {
            self.journal.warn(DOUBTFUL_LABELS, format!("{} data: {about}", self.split))?;
        }
        for warning in &prepared.warnings {
            self.journal.warn("TOKEN_CACHE", warning)?;
        }
        Ok(prepared)
    }

    /// Tokenizes the rows that `choose` returns for the number of rows, before all others. Returns
    /// `None` where it returns none, or where that would take as long as to tokenize all.
    pub(super) fn preview(
        &self,
        open: &OpenSet,
        tokenizer: &dyn TextTokenizer,
        choose: &dyn Fn(usize) -> Option<Vec<u32>>,
    ) -> RunResult<Option<TokenizedSet>> {
        if open.is_tokenized() || !open.has_previews() {
            return Ok(None);
        }
        let mut watch = |_| self.stop.reason().is_none();
        Ok(open.preview(tokenizer, &mut |rows| choose(rows), &mut watch)?)
    }

    /// Reports the rows of `set`, all that was `prepared` or a part of it.
    pub(super) fn report(&self, set: &TokenizedSet, prepared: &Prepared) -> RunResult<()> {
        let seconds = prepared.duration.as_secs_f64();
        let event = report::event(self.split, &SetStats::of(set)?, prepared.cache_hit, seconds);
        Ok(self.journal.record(event)?)
    }
}
