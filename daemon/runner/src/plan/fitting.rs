//! Finds one change that makes a job fit; the changes that cost least are tried first. With
//! `auto_find_batch_size`, finds the batch size that fits.

use traind_job_file::{Fsdp, JobFile, Optim, Platform, TaskName};

use super::memory::Memory;
use super::{Change, PlannedModel};
use crate::error::RunResult;

/// Shorter rows than this lose more than they save.
const MAX_LENGTH_MIN: u32 = 64;

type Changed = (&'static str, String, JobFile);

pub(super) fn change(
    job: &JobFile,
    planned: &PlannedModel,
    fits: impl Fn(&Memory) -> bool,
) -> Option<Change> {
    for (field, value, changed) in candidates(job, planned.model.max_positions() as u32) {
        // A change that the model or the optimizer refuses does not fit.
        if Memory::of(&changed, planned).is_ok_and(|memory| fits(&memory)) {
            return Some(Change { field: field.to_owned(), value });
        }
    }
    None
}

/// The job with the first batch size that fits among its own and those that are a tenth smaller each,
/// rounded down, as in accelerate's `find_executable_batch_size`. The job itself if none fits.
pub(super) fn with_fitting_batch(
    job: &JobFile,
    planned: &PlannedModel,
    fits: impl Fn(&Memory) -> bool,
) -> RunResult<JobFile> {
    let of_rows = |rows: u32| {
        let mut changed = job.clone();
        changed.train.per_device_train_batch_size = rows;
        changed
    };
    let first = job.train.per_device_train_batch_size;
    let next = |rows: &u32| Some((f64::from(*rows) * 0.9) as u32).filter(|rows| *rows > 0);
    let sizes: Vec<u32> = std::iter::successors(Some(first), next).collect();
    // Memory grows with the rows, so that a search by halves finds the first that fits.
    let (mut too_large, mut end) = (0, sizes.len());
    while too_large < end {
        let middle = too_large.midpoint(end);
        match fits(&Memory::of(&of_rows(sizes[middle]), planned)?) {
            true => end = middle,
            false => too_large = middle + 1,
        }
    }
    Ok(of_rows(sizes.get(too_large).copied().unwrap_or(first)))
}

/// The first changes keep the results the same; later ones change the batch size, by dividing layers
/// over cores that would else see other rows or by fewer rows, the length of rows and the optimizer.
fn candidates(job: &JobFile, positions: u32) -> impl Iterator<Item = Changed> + '_ {
    let (sharding, has_shards) = (job.parallel.sharding(), job.data_parallel_size() > 1);
    let sharded = (sharding == Fsdp::No && has_shards).then(|| {
        let mut changed = job.clone();
        changed.parallel.shard_optimizer_state = true;
        ("parallel.shard_optimizer_state", "true".to_owned(), changed)
    });
    let checkpointed = (!job.train.gradient_checkpointing).then(|| {
        let mut changed = job.clone();
        changed.train.gradient_checkpointing = true;
        ("train.gradient_checkpointing", "true".to_owned(), changed)
    });
    let gathered = (!sharding.shards_parameters() && has_shards).then(|| {
        let mut changed = job.clone();
        changed.parallel.fsdp = Fsdp::FullShard;
        ("parallel.fsdp", Fsdp::FullShard.to_string(), changed)
    });
    // CPU cores have no memory but the host's.
    let has_own_memory = job.resources.platform == Platform::Cuda;
    let offloaded = (has_own_memory && !job.parallel.offload.optimizer).then(|| {
        let mut changed = job.clone();
        changed.parallel.offload.optimizer = true;
        ("parallel.offload", changed.parallel.offload.to_string(), changed)
    });
    let has_positions = job.model.task != TaskName::ImageClassification;
    let divides = has_positions && job.parallel.tensor > 1 && !job.parallel.sequence_parallel;
    let positions_divided = divides.then(|| {
        let mut changed = job.clone();
        changed.parallel.sequence_parallel = true;
        ("parallel.sequence_parallel", "true".to_owned(), changed)
    });
    let (hosts, cores) = (job.resources.hosts, job.resources.cores / job.parallel.pipeline.max(1));
    let divisors = (job.parallel.tensor + 1..=cores).filter(move |it| cores.is_multiple_of(*it));
    let divided = divisors.map(move |tensor| {
        let mut changed = job.clone();
        changed.parallel.tensor = tensor;
        changed.parallel.data = Some(hosts * cores / tensor);
        ("parallel.tensor", tensor.to_string(), changed)
    });
    let rows = halves(job.train.per_device_train_batch_size, 1).map(|rows| {
        let mut changed = job.clone();
        changed.train.per_device_train_batch_size = rows;
        ("train.per_device_train_batch_size", rows.to_string(), changed)
    });
    let length = job.row_length().unwrap_or(positions).min(positions);
    let lengths = halves(length, MAX_LENGTH_MIN).map(|length| {
        let mut changed = job.clone();
        let field = match changed.model.task {
            TaskName::Seq2SeqLm => {
                changed.data.max_source_length = Some(length);
                "data.max_source_length"
            }
            _ => {
                changed.data.max_length = Some(length);
                "data.max_length"
            }
        };
        (field, length.to_string(), changed)
    });
    let smaller = (job.train.optim == Optim::AdamwTorch).then(|| {
        let mut changed = job.clone();
        changed.train.optim = Optim::Adafactor;
        ("train.optim", Optim::Adafactor.to_string(), changed)
    });
    let same = sharded.into_iter().chain(positions_divided).chain(checkpointed).chain(gathered);
    same.chain(offloaded).chain(divided).chain(rows).chain(lengths).chain(smaller)
}

fn halves(from: u32, least: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(from / 2), |size| Some(size / 2))
        .take_while(move |size| *size >= least)
}
