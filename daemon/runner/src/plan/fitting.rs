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

/// A job with another value of one key.
struct Changed {
    field: &'static str,
    value: String,
    job: JobFile,
}

impl Changed {
    fn of(
        job: &JobFile,
        field: &'static str,
        value: impl ToString,
        set: impl FnOnce(&mut JobFile),
    ) -> Changed {
        let mut job = job.clone();
        set(&mut job);
        Changed { field, value: value.to_string(), job }
    }
}

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
    match single.find(|changed| fits(&changed.job)) {
        Some(Changed { field, value, .. }) => vec![Change { field: field.to_owned(), value }],
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
    let smaller = (job.train.optim == Optim::AdamwTorch).then(|| {
        Changed::of(job, "train.optim", Optim::Adafactor, |job| job.train.optim = Optim::Adafactor)
    });
    let (divided, fewer) = (divided(job), with_fewer_rows(job));
    with_less_state(job).chain(divided).chain(fewer).chain(shorter(job, positions)).chain(smaller)
}

/// Changes that keep the results: less of the state or of the activations on each core.
fn with_less_state(job: &JobFile) -> impl Iterator<Item = Changed> + '_ {
    let (sharding, has_shards) = (job.parallel.sharding(), job.data_parallel_size() > 1);
    let sharded = (sharding == Fsdp::No && has_shards).then(|| {
        let set = |job: &mut JobFile| job.parallel.shard_optimizer_state = true;
        Changed::of(job, "parallel.shard_optimizer_state", true, set)
    });
    let divides = job.parallel.tensor > 1 && !job.parallel.sequence_parallel;
    let positions_divided = divides.then(|| {
        let set = |job: &mut JobFile| job.parallel.sequence_parallel = true;
        Changed::of(job, "parallel.sequence_parallel", true, set)
    });
    let checkpointed = (!job.train.gradient_checkpointing).then(|| {
        let set = |job: &mut JobFile| job.train.gradient_checkpointing = true;
        Changed::of(job, "train.gradient_checkpointing", true, set)
    });
    let gathered = (!sharding.shards_parameters() && has_shards).then(|| {
        let is_hybrid = job.data_hosts() > 1 && job.train.predict_with_generate;
        let fsdp = if is_hybrid { Fsdp::HybridShard } else { Fsdp::FullShard };
        Changed::of(job, "parallel.fsdp", fsdp, |job| job.parallel.fsdp = fsdp)
    });
    // CPU cores have no memory but the host's.
    let has_own_memory = job.resources.platform == Platform::Cuda;
    let offloaded = (has_own_memory && !job.parallel.offload.optimizer).then(|| {
        let mut offload = job.parallel.offload;
        offload.optimizer = true;
        Changed::of(job, "parallel.offload", offload, |job| job.parallel.offload = offload)
    });
    let of_shards = sharded.into_iter().chain(positions_divided).chain(checkpointed);
    of_shards.chain(gathered).chain(offloaded)
}

/// Layers that more cores share.
fn divided(job: &JobFile) -> impl Iterator<Item = Changed> + '_ {
    let (hosts, cores) = (job.resources.hosts, job.resources.cores / job.parallel.pipeline.max(1));
    let divisors = (job.parallel.tensor + 1..=cores).filter(move |it| cores.is_multiple_of(*it));
    divisors.map(move |tensor| {
        Changed::of(job, "parallel.tensor", tensor, |job| {
            job.parallel.tensor = tensor;
            job.parallel.data = Some(hosts * cores / tensor);
        })
    })
}

fn with_fewer_rows(job: &JobFile) -> impl Iterator<Item = Changed> + '_ {
    halves(job.train.per_device_train_batch_size, 1).map(move |rows| {
        let set = |job: &mut JobFile| job.train.per_device_train_batch_size = rows;
        Changed::of(job, "train.per_device_train_batch_size", rows, set)
    })
}

/// Rows that are shorter than `positions`.
fn shorter(job: &JobFile, positions: u32) -> impl Iterator<Item = Changed> + '_ {
    let length = job.row_length().unwrap_or(positions).min(positions);
    halves(length, MAX_LENGTH_MIN).map(move |length| match job.model.task {
        TaskName::Seq2SeqLm => Changed::of(job, "data.max_source_length", length, |job| {
            job.data.max_source_length = Some(length);
        }),
        _ => Changed::of(job, "data.max_length", length, |job| {
            job.data.max_length = Some(length);
        }),
    })
}

fn halves(from: u32, least: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(from / 2), |size| Some(size / 2))
        .take_while(move |size| *size >= least)
}
