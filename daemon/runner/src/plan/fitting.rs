//! Finds changes that make a job fit: one, of which those that cost least are tried first, or the
//! mesh that a search puts first. With `auto_find_batch_size`, finds the batch size that fits. For programs
//! that are too large for a compiler, finds the largest batch, the longest rows and the fewest cores to divide
//! layers that it takes.

use std::time::{Duration, Instant};

use traind_job_file::commands::{Change, CoreMemory, MeshSearch};
use traind_job_file::{Fsdp, JobFile, Optim, Platform, TaskName};

use super::search::search;
use super::{PlannedModel, memory};
use crate::error::RunResult;

/// Time after which a search plans no further meshes. A submission waits for it, and the daemon ends a plan after 20
/// seconds. Tests take theirs, however busy their host is.
const SEARCH_TIME: Duration = Duration::from_secs(if cfg!(test) { 600 } else { 8 });

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
/// where neither is found. `device`: that of the cores, as a search names it.
pub(super) fn changes(
    job: &JobFile,
    planned: &PlannedModel,
    bytes_max: Option<u64>,
    device: &str,
) -> Vec<Change> {
    let fits =
        |changed: &JobFile| memory::of(changed, planned).is_ok_and(|memory| memory.fits(bytes_max));
    // A change that the model or the optimizer refuses does not fit.
    let mut single = candidates(job, planned.model.max_positions() as u32);
    match single.find(|changed| fits(&changed.job)) {
        Some(Changed { field, value, .. }) => vec![Change { field: field.to_owned(), value }],
        None => {
            let best = mesh(job, planned, bytes_max, device);
            best.map_or_else(Vec::new, |best| differences(job, &best))
        }
    }
}

/// A core that has `most` bytes, of which the job takes more, and what makes it fit.
pub(super) fn misfit_words(bytes: u64, most: u64, changes: &[Change]) -> String {
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64);
    let remedy = match changes.is_empty() {
        true => "no change and no mesh of its cores was found with which it fits".to_owned(),
        false => format!("it fits with {}", words(changes)),
    };
    format!("a core would need {} and has {}; {remedy}", gib(bytes), gib(most))
}

/// Changes each of which makes the job's programs small enough, or those of a mesh that do together, as a
/// message lists them.
pub(super) fn smaller(
    job: &JobFile,
    planned: &PlannedModel,
    bytes_max: Option<u64>,
    device: &str,
) -> Vec<String> {
    let start = Instant::now();
    let fits = |changed: &Changed| {
        start.elapsed() < SEARCH_TIME
            && memory::of(&changed.job, planned).is_ok_and(|memory| memory.fits(bytes_max))
    };
    let length = planned.positions(job).unwrap_or_default();
    // Not every number of cores divides the layers.
    let divided = divided_layers(job).chain(more_cores(job, planned)).find(|it| fits(it));
    let of_rows = first_that_fits(fewer_rows(job), fits);
    let of_lengths = first_that_fits(shorter_rows(job, length), fits);
    let found = [divided, of_rows, of_lengths].into_iter().flatten();
    let found: Vec<String> = found.map(|it| format!("{}: {}", it.field, it.value)).collect();
    // A search takes as long again.
    match found.is_empty() && start.elapsed() < SEARCH_TIME / 4 {
        true => mesh(job, planned, bytes_max, device)
            .map(|best| words(&differences(job, &best)))
            .into_iter()
            .collect(),
        false => found,
    }
}

/// "parallel.tensor: 2, train.gradient_checkpointing: true".
fn words(changes: &[Change]) -> String {
    let words = changes.iter().map(|it| format!("{}: {}", it.field, it.value));
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the first of ever smaller jobs that fits, by halves.
fn first_that_fits(
    sizes: impl Iterator<Item = Changed>,
    fits: impl Fn(&Changed) -> bool,
) -> Option<Changed> {
    let mut sizes: Vec<Changed> = sizes.collect();
    let first = sizes.partition_point(|it| !fits(it));
    (first < sizes.len()).then(|| sizes.swap_remove(first))
}

/// The job on the best mesh that fits.
fn mesh(
    job: &JobFile,
    planned: &PlannedModel,
    bytes_max: Option<u64>,
    device: &str,
) -> Option<JobFile> {
    let end = Some(Instant::now() + SEARCH_TIME);
    let (hosts, device) = (job.resources.hosts, device.to_owned());
    let wanted = MeshSearch { hosts, device, ..MeshSearch::default() };
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
    let length = job.data.block_size.or(job.row_length()).unwrap_or(positions).min(positions);
    let smaller = (job.train.optim == Optim::AdamwTorch).then(|| {
        Changed::of(job, "train.optim", Optim::Adafactor, |job| job.train.optim = Optim::Adafactor)
    });
    let sizes = divided_layers(job).chain(fewer_rows(job)).chain(shorter_rows(job, length));
    with_less_state(job).chain(sizes).chain(smaller)
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

/// More cores of those that would else see other rows share each layer.
fn divided_layers(job: &JobFile) -> impl Iterator<Item = Changed> + '_ {
    let (hosts, cores) = (job.resources.hosts, job.resources.cores / job.parallel.pipeline.max(1));
    let divisors = (job.parallel.tensor + 1..=cores).filter(move |it| cores.is_multiple_of(*it));
    divisors.map(move |tensor| {
        Changed::of(job, "parallel.tensor", tensor, |job| {
            job.parallel.tensor = tensor;
            job.parallel.data = Some(hosts * cores / tensor);
        })
    })
}

/// More NeuronCores than the job has share each layer, in numbers that AWS documents.
fn more_cores<'a>(job: &'a JobFile, planned: &PlannedModel) -> impl Iterator<Item = Changed> + 'a {
    let counts = planned.neuron.as_ref().map(|it| it.core.generation.documented_core_counts());
    let (own, stages) = (job.resources.cores, job.parallel.pipeline.max(1));
    let counts = counts.unwrap_or_default().iter().copied();
    let more = counts.filter(move |it| *it > own && it.is_multiple_of(stages));
    more.map(move |cores| {
        let tensor = cores / stages;
        let value = format!("{tensor} and resources.cores: {cores}");
        Changed::of(job, "parallel.tensor", value, |job| {
            job.resources.cores = cores;
            job.parallel.tensor = tensor;
            job.parallel.data = Some(job.resources.hosts);
        })
    })
}

fn fewer_rows(job: &JobFile) -> impl Iterator<Item = Changed> + '_ {
    halves(job.train.per_device_train_batch_size, 1).map(move |rows| {
        let set = |job: &mut JobFile| job.train.per_device_train_batch_size = rows;
        Changed::of(job, "train.per_device_train_batch_size", rows, set)
    })
}

fn shorter_rows(job: &JobFile, length: u32) -> impl Iterator<Item = Changed> + '_ {
    halves(length, MAX_LENGTH_MIN).map(move |length| match job.model.task {
        TaskName::Seq2SeqLm => Changed::of(job, "data.max_source_length", length, |job| {
            job.data.max_source_length = Some(length);
        }),
        _ if job.data.block_size.is_some() => {
            Changed::of(job, "data.block_size", length, |job| job.data.block_size = Some(length))
        }
        _ => Changed::of(job, "data.max_length", length, |job| {
            job.data.max_length = Some(length);
        }),
    })
}

fn halves(from: u32, least: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(from / 2), |size| Some(size / 2))
        .take_while(move |size| *size >= least)
}
