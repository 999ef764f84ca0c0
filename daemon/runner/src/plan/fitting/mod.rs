//! Finds changes that make a job fit: one, of which those that cost least are tried first, or the
//! mesh that a search puts first. With `auto_find_batch_size`, finds the batch size that fits. For programs
//! that are too large for a compiler, finds the largest batch, the longest rows and the fewest cores to divide
//! layers that it takes.

mod costs;

use std::time::{Duration, Instant};

use traind_job_file::commands::{Change, CoreMemory, MeshSearch, Misfit};
use traind_job_file::{Fsdp, JobFile, Optim, Platform, TaskName};

use super::search::search;
use super::{PlannedModel, memory};
use crate::error::RunResult;
use costs::with_costs;

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

/// A change that makes a job fit.
pub(super) struct Remedy {
    changes: Vec<Change>,
    /// The changes with their costs.
    words: String,
}

impl Remedy {
    fn of_one(job: &JobFile, Changed { field, value, job: changed }: Changed) -> Remedy {
        let change = Change { field: field.to_owned(), value };
        Remedy::new(job, vec![change], &changed)
    }

    /// The remedy of another mesh.
    fn of_mesh(job: &JobFile, best: &JobFile) -> Remedy {
        Remedy::new(job, differences(job, best), best)
    }

    fn new(job: &JobFile, changes: Vec<Change>, changed: &JobFile) -> Remedy {
        let words = with_costs(&words(&changes), job, changed);
        Remedy { changes, words }
    }
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

    /// Whether a job with it computes something else, whatever its rows a step.
    fn changes_results(&self) -> bool {
        self.field.starts_with("data.") || self.field == "train.optim"
    }
}

/// The ways in which the job fits, each by itself: a single change, and the best mesh of its cores where the change has
/// other results or there is none. Empty where neither is found. `device`: that of the cores, as a search names it.
pub(super) fn misfit(
    job: &JobFile,
    planned: &PlannedModel,
    bytes_max: Option<u64>,
    device: &str,
) -> Misfit {
    let start = Instant::now();
    let fits =
        |changed: &JobFile| memory::of(changed, planned).is_ok_and(|memory| memory.fits(bytes_max));
    // A change that the model or the optimizer refuses does not fit.
    let mut single = candidates(job, planned);
    let single = single.find(|changed| fits(&changed.job));
    let keeps_rows = |it: &Changed| it.job.total_train_batch_size() == job.total_train_batch_size();
    let is_enough = single.as_ref().is_some_and(|it| keeps_rows(it) && !it.changes_results());
    // A search takes as long again.
    let searches = single.is_none() || start.elapsed() < SEARCH_TIME / 4;
    let best = (!is_enough && searches).then(|| mesh(job, planned, bytes_max, device)).flatten();
    let of_mesh = best.map(|best| Remedy::of_mesh(job, &best));
    let of_one = single.map(|it| Remedy::of_one(job, it));
    let found: Vec<Remedy> = of_one.into_iter().chain(of_mesh).collect();
    misfit_of(match found.is_empty() {
        true => {
            let is_early = || start.elapsed() < 2 * SEARCH_TIME;
            let found = with_fewer_rows(job, planned, |it| is_early() && fits(&it.job));
            found.into_iter().collect()
        }
        false => found,
    })
}

/// More cores that share layers, and as many rows as then fit: for a job that neither of both makes small enough.
fn with_fewer_rows(
    job: &JobFile,
    planned: &PlannedModel,
    fits: impl Fn(&Changed) -> bool,
) -> Option<Remedy> {
    let mut divided: Vec<Changed> = divided_layers(job).collect();
    // The most cores first: a model's heads may not divide by them.
    divided.reverse();
    divided.into_iter().chain(more_cores(job, planned)).find_map(
        |Changed { field, value, job: wide }| {
            let same =
                Changed { field: ROWS, value: own_rows(&wide).to_string(), job: wide.clone() };
            let found = first_that_fits(std::iter::once(same).chain(fewer_rows(&wide)), &fits)?;
            let mut changes = vec![Change { field: field.to_owned(), value }];
            if own_rows(&found.job) != own_rows(job) {
                changes.push(Change { field: ROWS.to_owned(), value: found.value });
            }
            Some(Remedy::new(job, changes, &found.job))
        },
    )
}

/// The key of a core's rows.
const ROWS: &str = "train.per_device_train_batch_size";

fn own_rows(job: &JobFile) -> u32 {
    job.train.per_device_train_batch_size
}

/// The first remedy's changes, and the words of all.
fn misfit_of(remedies: Vec<Remedy>) -> Misfit {
    let changes = remedies.first().map(|it| it.changes.clone()).unwrap_or_default();
    Misfit { changes, remedies: remedies.into_iter().map(|it| it.words).collect() }
}

/// The ways in which a job fits that fits on no mesh of its cores: fewer rows a step, shorter rows, and more cores.
/// `best`: the job on the mesh that needs the least memory.
pub(super) fn misfit_of_all(
    job: &JobFile,
    best: &JobFile,
    planned: &PlannedModel,
    bytes_max: Option<u64>,
) -> Misfit {
    let fits = |it: &Changed| memory::of(&it.job, planned).is_ok_and(|it| it.fits(bytes_max));
    // Rows as the job file counts them, on the other mesh.
    let (own, of_best) =
        (job.train.per_device_train_batch_size, best.train.per_device_train_batch_size);
    let on_best = |it: Changed| {
        let mut changed = best.clone();
        let rows = of_best * it.job.train.per_device_train_batch_size;
        changed.train.per_device_train_batch_size = rows / own;
        (rows.is_multiple_of(own) && rows >= own).then_some(Changed { job: changed, ..it })
    };
    let of_rows = first_that_fits(fewer_rows(job).filter_map(on_best), fits);
    let length = length_to_shorten(job, planned);
    let of_length = first_that_fits(shorter_rows(best, length), fits);
    let of_cores = more_cores(job, planned).find(|it| fits(it));
    let found = [of_rows, of_length, of_cores].into_iter().flatten();
    // A mesh alone has no costs here: the job leaves it to the planner.
    misfit_of(found.map(|it| Remedy::of_one(&beside(job, best, &it), it)).collect())
}

/// The job that a change is compared with: the best mesh, or the job itself where the change has more cores.
fn beside(job: &JobFile, best: &JobFile, changed: &Changed) -> JobFile {
    let has_more = changed.job.resources.total_cores() > best.resources.total_cores();
    if has_more { job.clone() } else { best.clone() }
}

/// A core that has `most` bytes, of which the job takes more, and what makes it fit.
pub(super) fn misfit_words(bytes: u64, most: u64, misfit: &Misfit) -> String {
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64);
    let remedy = misfit.advice();
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
    let length = length_to_shorten(job, planned);
    // Not every number of cores divides the layers.
    let divided = divided_layers(job).chain(more_cores(job, planned)).find(|it| fits(it));
    let of_rows = first_that_fits(fewer_rows(job), fits);
    let needs_both = divided.is_none() && of_rows.is_none();
    let of_both = needs_both.then(|| with_fewer_rows(job, planned, fits)).flatten();
    let of_lengths = first_that_fits(shorter_rows(job, length), fits);
    // A search takes as long again.
    let searches = divided.is_none() && start.elapsed() < SEARCH_TIME / 4;
    let best = searches.then(|| mesh(job, planned, bytes_max, device)).flatten();
    let of_mesh = best.map(|best| Remedy::of_mesh(job, &best));
    let single = [divided, of_rows, of_lengths].into_iter().flatten();
    let single = single.map(|it| Remedy::of_one(job, it));
    of_mesh.into_iter().chain(of_both).chain(single).map(|it| it.words).collect()
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
fn candidates<'a>(job: &'a JobFile, planned: &PlannedModel) -> impl Iterator<Item = Changed> + 'a {
    let positions = planned.model.max_positions() as u32;
    let texts = job.data.block_size.or(job.row_length()).unwrap_or(positions).min(positions);
    let length = if planned.has_fixed_lengths() { 0 } else { texts };
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
        Changed::of(job, ROWS, rows, set)
    })
}

/// The length of the rows that may be shorter; 0 where none may.
fn length_to_shorten(job: &JobFile, planned: &PlannedModel) -> u32 {
    if planned.has_fixed_lengths() { 0 } else { planned.positions(job).unwrap_or_default() }
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
