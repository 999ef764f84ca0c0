//! The rows that a run begins with, while the others are tokenized.

use std::ops::Range;

use traind_job_file::{JobFile, TrainSamplingStrategy};
use traind_loader::{Sampler, SamplerConfig};

use crate::checkpoint::Resumed;
use crate::data::lengths::RowLadders;
use crate::error::RunResult;
use crate::progress::Timetable;

/// Fewer rows are all tokenized before the first step, which takes about a second.
const ROWS_MIN: usize = 1 << 16;

/// Rows to begin with, if they make enough steps.
const FIRST_ROWS: u64 = 4096;

/// The fewest steps to begin with.
const STEPS_MIN: u64 = 16;

/// Whether a sample of `rows` rows determines the padded lengths of a run. This does not depend on
/// which of them are tokenized already, since the run must not.
pub(super) fn pads_by_sample(job: &JobFile, rows: usize) -> bool {
    rows >= ROWS_MIN && !needs_all_lengths(job)
}

/// Whether the order of the rows depends on the lengths of all.
pub(super) fn needs_all_lengths(job: &JobFile) -> bool {
    job.train.train_sampling_strategy == TrainSamplingStrategy::GroupByLength
}

/// Returns the first rows that a run on `rows` rows needs; `None` where it needs all.
pub(super) fn choose(
    job: &JobFile,
    config: &SamplerConfig,
    ladders: &RowLadders,
    resumed: Option<&Resumed>,
    rows: usize,
) -> Option<Vec<u32>> {
    if !pads_by_sample(job, rows) {
        return None;
    }
    // Where one of these fails, it does so again with all rows, and is reported then.
    let sampler = Sampler::new(config.clone(), vec![0; rows], ladders.rows.clone()).ok()?;
    let timetable = timetable(job, &sampler, resumed).ok()?;
    let mut chosen = sampler.rows_of(batches(job, &timetable, resumed));
    chosen.extend(sampler.sampled_rows());
    Some(chosen)
}

/// The batches of the first rows.
pub(super) fn batches(
    job: &JobFile,
    timetable: &Timetable,
    resumed: Option<&Resumed>,
) -> Range<u64> {
    let done = resumed.map_or(0, Resumed::step);
    let rows_per_step = job.total_train_batch_size().max(1);
    let steps = FIRST_ROWS.div_ceil(rows_per_step).max(STEPS_MIN);
    let end = (done + steps).min(timetable.max_steps).max(done);
    timetable.batches_before(done)..timetable.batches_before(end)
}

/// The timetable of a run with the batches of `sampler`.
pub(super) fn timetable(
    job: &JobFile,
    sampler: &Sampler,
    resumed: Option<&Resumed>,
) -> RunResult<Timetable> {
    let timetable = Timetable::new(&job.train, sampler.batches_per_epoch() as u64)?;
    let lag = resumed.map(|it| it.data_lag(&job.train, &timetable));
    Ok(timetable.with_data_lag(lag.unwrap_or_default()))
}
