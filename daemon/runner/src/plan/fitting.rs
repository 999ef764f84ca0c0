//! Finds changes that make a job fit: one, of which those that cost least are tried first, or the
//! mesh that a search puts first. With `auto_find_batch_size`, finds the batch size that fits.

use std::time::{Duration, Instant};

use traind_job_file::commands::{Change, CoreMemory, MeshSearch};
use traind_job_file::{Fsdp, JobFile, Optim, Platform, TaskName};

use super::search::search;
use super::{PlannedModel, memory};
use crate::error::RunResult;

/// Time after which a search plans no further meshes. A submission waits for it, and the daemon ends a plan after 20
/// seconds.
const SEARCH_TIME: Duration = Duration::from_secs(8);

/// Shorter rows than this lose more than they save.
const MAX_LENGTH_MIN: u32 = 64;

type Changed = (&'static str, String, JobFile);

/// The changes that make the job fit: a single one, or those of the best mesh of its cores that fits. None
/// where neither is found.
pub(super) fn changes(
    job: &JobFile,
    planned: &PlannedModel,
    bytes_max: Option<u64>,
) -> Vec<Change> {
    let fits =
        |changed: &JobFile| memory::of(changed, planned).is_ok_and(|memory| memory.fits(bytes_max));
    // A change that the model or the optimizer refuses does not fit.
    let mut single = candidates(job, planned.model.max_positions() as u32);
    match single.find(|(_, _, changed)| fits(changed)) {
        Some((field, value, _)) => vec![Change { field: field.to_owned(), value }],
        None => mesh(job, planned, bytes_max).map_or_else(Vec::new, |it| differences(job, &it)),
    }
}

/// The job on the best mesh that fits.
fn mesh(job: &JobFile, planned: &PlannedModel, bytes_max: Option<u64>) -> Option<JobFile> {
    let end = Some(Instant::now() + SEARCH_TIME);
    let wanted = MeshSearch { hosts: job.resources.hosts, ..MeshSearch::default() };
    let found = search(job, planned, &wanted, bytes_max, end).ok()?;
    found.meshes.first().is_some_and(|mesh| mesh.fits).then_some(found.job)
}

/// The keys by which two jobs differ that a search may change.
fn differences(job: &JobFile, changed: &JobFile) -> Vec<Change> {
    let values = |job: &JobFile| {
        let (parallel, train) = (&job.parallel, &job.train);
        [
            // Left out, it is what the other axes leave.
            ("parallel.data", parallel.data.map_or(String::new(), |it| it.to_string())),
            ("parallel.tensor", parallel.tensor.to_string()),
            ("parallel.sequence_parallel", parallel.sequence_parallel.to_string()),
            ("parallel.pipeline", parallel.pipeline.to_string()),
            ("parallel.pipeline_interleave", parallel.pipeline_interleave.to_string()),
            (
                "parallel.microbatches",
                parallel.microbatches.map_or(String::new(), |it| it.to_string()),
            ),
            ("parallel.fsdp", parallel.sharding().to_string()),
            ("parallel.shard_optimizer_state", parallel.shard_optimizer_state.to_string()),
            ("parallel.offload", format!("[{}]", parallel.offload)),
            ("train.gradient_checkpointing", train.gradient_checkpointing.to_string()),
            ("train.per_device_train_batch_size", train.per_device_train_batch_size.to_string()),
            ("train.gradient_accumulation_steps", train.gradient_accumulation_steps.to_string()),
        ]
    };
    let is_told = |field: &str| match field {
        "parallel.data" => job.parallel.data.is_some(),
        "parallel.microbatches" => changed.parallel.microbatches.is_some(),
        _ => true,
    };
    let pairs = values(job).into_iter().zip(values(changed));
    let differing = pairs.filter(|((field, old), (_, new))| old != new && is_told(field));
    differing.map(|(_, (field, value))| Change { field: field.to_owned(), value }).collect()
}

/// The job with the first batch size that fits among its own and those that are a tenth smaller each,
/// rounded down, as in accelerate's `find_executable_batch_size`. The job itself if none fits.
pub(super) fn with_fitting_batch(
    job: &JobFile,
    planned: &PlannedModel,
    fits: impl Fn(&CoreMemory) -> bool,
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
        match fits(&memory::of(&of_rows(sizes[middle]), planned)?) {
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
        let is_hybrid = job.data_hosts() > 1 && job.train.predict_with_generate;
        let fsdp = if is_hybrid { Fsdp::HybridShard } else { Fsdp::FullShard };
        changed.parallel.fsdp = fsdp;
        ("parallel.fsdp", fsdp.to_string(), changed)
    });
    // CPU cores have no memory but the host's.
    let has_own_memory = job.resources.platform == Platform::Cuda;
    let offloaded = (has_own_memory && !job.parallel.offload.optimizer).then(|| {
        let mut changed = job.clone();
        changed.parallel.offload.optimizer = true;
        ("parallel.offload", changed.parallel.offload.to_string(), changed)
    });
    let divides = job.parallel.tensor > 1 && !job.parallel.sequence_parallel;
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
