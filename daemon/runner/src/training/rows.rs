//! The rows of all steps, as collated batches.

use std::ops::Range;

use traind_loader::{Collator, HostBatch, Sampler};

use crate::data::later::{Abandon, Awaited, LaterRows};
use crate::data::lengths;
use crate::error::RunResult;

/// The batches of a run, and the set that their rows are in.
pub(crate) struct TrainRows {
    pub sampler: Sampler,
    pub collator: Collator,
    /// Where sampler and collator know only some rows.
    pub first: Option<FirstBatches>,
}

/// The batches before `end`, whose rows are known before all others.
#[derive(Debug)]
pub(crate) struct FirstBatches {
    pub end: u64,
    pub later: LaterRows,
}

type HostBatches = Box<dyn Iterator<Item = RunResult<HostBatch>> + Send>;

impl TrainRows {
    /// Collates `batches`, and waits for their rows if needed. Dropping what comes with them ends
    /// the wait.
    pub(super) fn collated(self, batches: Range<u64>) -> RunResult<(HostBatches, Option<Abandon>)> {
        let TrainRows { sampler, collator, first } = self;
        let known = first.as_ref().map_or(batches.end, |first| first.end);
        let now = collator.clone().collate_all(sampler.run(batches.start, known));
        let Some(first) = first.filter(|_| known < batches.end) else {
            return Ok((Box::new(now), None));
        };
        let (awaited, abandon) = first.later.start()?;
        let later = std::iter::once_with(move || {
            awaited_batches(awaited, &sampler, &collator, known..batches.end)
                .unwrap_or_else(|error| Box::new(std::iter::once(Err(error))))
        });
        Ok((Box::new(now.chain(later.flatten())), Some(abandon)))
    }
}

/// Waits for the whole set and collates the batches of all its rows.
fn awaited_batches(
    awaited: Awaited,
    sampler: &Sampler,
    collator: &Collator,
    batches: Range<u64>,
) -> RunResult<HostBatches> {
    let set = awaited.wait()?;
    let sampler = lengths::with_lengths_of(sampler, &set)?;
    let collator = collator.clone().with_set(set);
    Ok(Box::new(collator.collate_all(sampler.run(batches.start, batches.end))))
}
