//! The search for the best mesh of a job. It plans meshes in the order of the time that they take at
//! least, until no further one can be among the best.

mod no_mesh;

use std::time::{Duration, Instant};

use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use traind_job_file::commands::{MeshPlan, MeshSearch, Processor};
use traind_job_file::{JobFile, Platform};

use super::PlannedModel;
use super::candidates::candidates;
use super::compiled;
use super::devices;
use super::meshes::Machine;
use super::stages::Stages;
use crate::error::{RunError, RunResult};
use no_mesh::Refused;

/// The most meshes of an answer.
const MESHES_MAX: usize = 16;
/// The number of these that do not fit.
const MISFITS_MAX: usize = 4;
const CORES_MAX: u32 = 8192;
/// The time after which no further meshes are planned: the best of those until then is the answer. The daemon ends a
/// plan that takes longer than 40 seconds.
pub(super) const COMPARING_TIME: Duration = Duration::from_secs(20);
/// Meshes that are planned at one time. A number of threads here would make the answer depend on the host.
const BATCH: usize = 16;

/// The result of a search.
#[derive(Debug)]
pub(super) struct Found {
    /// The job on the first of the meshes.
    pub job: JobFile,
    pub meshes: Vec<MeshPlan>,
    /// The memory of a core, given or of the device that meshes are compared for.
    pub bytes_per_core_max: Option<u64>,
    /// Present where the cores are CPU devices.
    pub processor: Option<Processor>,
    /// How the exchange between hosts of CPU devices was predicted.
    pub network: Option<String>,
    /// Whether no mesh was left out for want of time.
    pub is_whole: bool,
    /// The meshes that were compared, by their axes.
    pub tried: usize,
}

/// Compares the meshes of the job: those that fit come first, and of these the fastest. Fails where the
/// model or the optimizer refuses all of them. No further ones are planned after `end`.
pub(super) fn search(
    job: &JobFile,
    planned: &PlannedModel,
    search: &MeshSearch,
    bytes_per_core_max: Option<u64>,
    end: Option<Instant>,
) -> RunResult<Found> {
    let (platform, per_host) = (job.resources.platform, cores_per_host(job, search.hosts)?);
    let job = &if search.across_hosts { on_one_host(job) } else { on_hosts(job, per_host) };
    let (is_cpu, hosts) = (platform == Platform::Cpu, job.resources.total_cores() / per_host);
    let processor = is_cpu.then(|| search.processor.unwrap_or_else(devices::measured_processor));
    let core = match &processor {
        Some(processor) => devices::processor_core(processor, per_host, search.mpi.as_ref()),
        None => devices::core(platform, &search.device, &job.train)?,
    };
    if is_cpu && !search.device.is_empty() {
        return Err(devices::unknown(platform, &search.device));
    }
    let (price, rows) = (search.price_per_hour, search.rows);
    let machine = Machine { core, per_host: per_host as usize, price, rows };
    let bytes_max = bytes_per_core_max.or(core.memory_bytes);
    let compiler = compiled::compiler(search, job.resources.total_cores(), per_host);
    let layers = planned.model.num_layers() as u32;
    let compiles = compiler.is_some();
    let comparison = Comparison { planned, machine, bytes_max, compiles, end };
    let jobs = match search.own_mesh {
        true => vec![job.clone()],
        false => candidates(job, per_host, layers),
    };
    let tried = no_mesh::count(&jobs);
    let (mut found, is_whole) = comparison.plans(jobs, job)?;
    if let Some(compiler) = compiler {
        compiled::measure(&mut found, planned, &compiler, bytes_max);
    }
    rank(&mut found);
    let first = found.first().map(|(job, _)| job.clone());
    let first = first.ok_or_else(|| no_mesh::error(job, planned, Vec::new()))?;
    let meshes = shortest(found.into_iter().map(|(_, plan)| plan));
    let network = (is_cpu && hosts > 1)
        .then(|| devices::network_words(search.mpi.as_ref(), &search.mpi_problem));
    let bytes_per_core_max = bytes_max;
    Ok(Found { job: first, meshes, bytes_per_core_max, processor, network, is_whole, tried })
}

/// The job and the machine that meshes are compared for.
struct Comparison<'a> {
    planned: &'a PlannedModel,
    machine: Machine,
    bytes_max: Option<u64>,
    /// Whether a compiler measures the memory of those that are found.
    compiles: bool,
    /// When to plan no further meshes.
    end: Option<Instant>,
}

/// A mesh before its programs are recorded.
struct Draft {
    job: JobFile,
    /// The time that a step takes at least.
    least_seconds: f64,
    /// The bytes of a core's variables, at the most.
    variable_bytes: u64,
}

impl Comparison<'_> {
    /// Plans the meshes that may be among the best, and a few that do not fit: the fastest, or those
    /// that need the least memory if none fits. Returns false besides where the time ended before.
    fn plans(
        &self,
        jobs: Vec<JobFile>,
        job: &JobFile,
    ) -> RunResult<(Vec<(JobFile, MeshPlan)>, bool)> {
        let drafted: Vec<_> = jobs.into_par_iter().map(|job| self.draft(job)).collect();
        let (mut drafts, mut refused): (Vec<Draft>, Vec<_>) = (Vec::new(), Vec::new());
        for draft in drafted {
            draft.map_or_else(|it| refused.push(it), |it| drafts.push(it));
        }
        drafts.sort_by(|a, b| a.least_seconds.total_cmp(&b.least_seconds));
        let may_fit = |it: &Draft| self.bytes_max.is_none_or(|most| it.variable_bytes <= most);
        let (fitting, mut misfits): (Vec<_>, Vec<_>) = drafts.into_iter().partition(may_fit);
        let mut misfits_max = MISFITS_MAX;
        if fitting.is_empty() {
            misfits.sort_by_key(|it| it.variable_bytes);
            misfits_max = BATCH;
        }
        let (mut found, mut is_whole) = (Vec::new(), true);
        let misfits = misfits.chunks(misfits_max).take(1);
        for batch in misfits.chain(fitting.chunks(BATCH)) {
            let wanted = |draft: &&Draft| self.may_be_best(draft, &found);
            let batch: Vec<&Draft> = batch.iter().filter(wanted).collect();
            let is_over = self.end.is_some_and(|end| Instant::now() >= end);
            if is_over && !found.is_empty() && !batch.is_empty() {
                is_whole = false;
                break;
            }
            let plan = |draft: &&Draft| {
                let plan = self.machine.plan(&draft.job, self.planned, self.bytes_max);
                let refused = |error| Refused { job: Box::new(draft.job.clone()), error };
                plan.map(|plan| (draft.job.clone(), plan)).map_err(refused)
            };
            let plans: Vec<Result<_, Refused>> = batch.par_iter().map(plan).collect();
            for plan in plans {
                plan.map_or_else(|it| refused.push(it), |it| found.push(it));
            }
        }
        match found.is_empty() {
            true => Err(no_mesh::error(job, self.planned, refused)),
            false => Ok((found, is_whole)),
        }
    }

    fn draft(&self, job: JobFile) -> Result<Draft, Refused> {
        let sizes = || {
            let least_seconds = self.machine.least_seconds(&job, self.planned)?;
            let stages = Stages::in_excerpts(&job, self.planned)?;
            Ok((least_seconds, stages.variable_bytes()?))
        };
        match sizes() {
            Ok((least_seconds, variable_bytes)) => Ok(Draft { job, least_seconds, variable_bytes }),
            Err(error) => Err(Refused { job: Box::new(job), error }),
        }
    }

    /// Whether a mesh can be among those of the answer.
    fn may_be_best(&self, draft: &Draft, found: &[(JobFile, MeshPlan)]) -> bool {
        let fitting = || found.iter().filter(|(_, plan)| plan.fits);
        // Recomputed activations cost time, and are worth it only where kept ones do not fit.
        let keeps_activations = |(job, _): &(JobFile, MeshPlan)| {
            !job.train.gradient_checkpointing && job.parallel == draft.job.parallel
        };
        let recomputes = draft.job.train.gradient_checkpointing;
        if recomputes && !self.compiles && fitting().any(keeps_activations) {
            return false;
        }
        let is_faster = |(_, plan): &(JobFile, MeshPlan)| plan.step_seconds <= draft.least_seconds;
        fitting().filter(|it| is_faster(it)).count() < MESHES_MAX
    }
}

/// The first meshes that fit, and the first of the others.
fn shortest(ranked: impl Iterator<Item = MeshPlan>) -> Vec<MeshPlan> {
    let (fitting, others): (Vec<_>, Vec<_>) = ranked.partition(|mesh| mesh.fits);
    let count = MESHES_MAX - others.len().min(MISFITS_MAX);
    fitting.into_iter().take(count).chain(others.into_iter().take(MISFITS_MAX)).collect()
}

/// The job's cores on each of so many hosts, unless it has several itself.
pub(super) fn cores_per_host(job: &JobFile, hosts: u32) -> RunResult<u32> {
    let cores = job.resources.total_cores();
    let hosts = if job.resources.hosts > 1 { job.resources.hosts } else { hosts.max(1) };
    let problem = match cores {
        _ if cores > CORES_MAX => format!("is more than a search can compare, {CORES_MAX}"),
        _ if !cores.is_multiple_of(hosts) => {
            format!(
                "cannot be divided evenly among {hosts} hosts; `--cores` is the number of each host"
            )
        }
        _ => return Ok(cores / hosts),
    };
    Err(RunError::Field { name: "resources.cores", value: cores.to_string(), problem })
}

/// The job with its cores on hosts of `per_host` each, which see different rows.
fn on_hosts(job: &JobFile, per_host: u32) -> JobFile {
    let mut changed = job.clone();
    changed.resources.hosts = job.resources.total_cores() / per_host;
    changed.resources.cores = per_host;
    changed
}

/// The job with all of its cores in one mesh.
fn on_one_host(job: &JobFile) -> JobFile {
    on_hosts(job, job.resources.total_cores())
}

/// Sorts meshes that fit first, the fastest of them before the others. If nothing fits, what is closest to it comes
/// first.
fn rank(found: &mut [(JobFile, MeshPlan)]) {
    let nothing_fits = found.iter().all(|(_, plan)| !plan.fits);
    found.sort_by(|(_, a), (_, b)| {
        let by_time = a.step_seconds.total_cmp(&b.step_seconds);
        let by_memory = a.memory.bytes_per_core.cmp(&b.memory.bytes_per_core);
        match nothing_fits {
            true => by_memory.then(by_time),
            false => b.fits.cmp(&a.fits).then(by_time).then(by_memory),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::candidates::tests::job;
    use crate::plan::meshes::tests::{plan, planned};

    #[test]
    fn what_fits_comes_first_and_then_what_is_faster() {
        let job = job("resources: {cores: 2}");
        let plan = |step_seconds: f64, bytes_per_core: u64, fits: bool| {
            let mut plan = plan(&job);
            (plan.step_seconds, plan.fits) = (step_seconds, fits);
            plan.memory.bytes_per_core = bytes_per_core;
            (job.clone(), plan)
        };
        let mut found =
            vec![plan(1.0, 9, false), plan(3.0, 2, true), plan(2.0, 7, true), plan(2.0, 5, true)];
        rank(&mut found);
        let order = |found: &[(JobFile, MeshPlan)]| {
            found.iter().map(|(_, it)| it.memory.bytes_per_core).collect::<Vec<_>>()
        };
        assert_eq!(order(&found), [5, 7, 2, 9]);
        let mut found = vec![plan(1.0, 9, false), plan(3.0, 2, false), plan(2.0, 7, false)];
        rank(&mut found);
        assert_eq!(order(&found), [2, 7, 9]);
    }

    /// The first meshes are planned however late it is.
    #[test]
    fn a_search_whose_time_is_over_answers_with_what_it_has() {
        let job = job("resources: {cores: 4, platform: cuda}\ntrain: {bf16: true}");
        let planned = planned(&job);
        let on = MeshSearch { device: "h100".to_owned(), ..MeshSearch::default() };
        let over = Some(Instant::now());
        let found = search(&job, &planned, &on, None, over).unwrap();
        assert!(!found.is_whole && !found.meshes.is_empty());
        let whole = search(&job, &planned, &on, None, None).unwrap();
        let seconds = |found: &Found| found.meshes[0].step_seconds;
        assert!(whole.is_whole && seconds(&whole) <= seconds(&found));
        // Nothing is left out where there is one mesh.
        let own = MeshSearch { own_mesh: true, ..on };
        assert!(search(&job, &planned, &own, None, over).unwrap().is_whole);
    }

    #[test]
    fn the_search_tries_every_mesh_and_divides_hosts_evenly() {
        let job = job("resources: {cores: 4, platform: cuda}\ntrain: {bf16: true}");
        let planned = planned(&job);
        let on = |hosts| MeshSearch { device: "h100".to_owned(), hosts, ..MeshSearch::default() };
        let Found { job: first, meshes: found, .. } =
            search(&job, &planned, &on(1), None, None).unwrap();
        assert_eq!(found.len(), MESHES_MAX);
        let limit = |given| search(&job, &planned, &on(1), given, None).unwrap().bytes_per_core_max;
        assert_eq!((limit(None), limit(Some(1 << 40))), (Some(80_000_000_000), Some(1 << 40)));
        assert_eq!(first.parallel.tensor, found[0].tensor);
        assert!(found.windows(2).all(|it| it[0].step_seconds <= it[1].step_seconds));
        // A small model's gradients cost less than dividing its layers.
        assert_eq!((found[0].tensor, found[0].gradient_checkpointing), (1, false));
        // Layers stay within a host, as in a job; shards and stages are over all.
        let far = search(&job, &planned, &on(4), None, None).unwrap().meshes;
        assert!(far.iter().all(|it| it.tensor == 1), "{far:?}");
        assert!(far.iter().any(|it| it.pipeline == 2), "{far:?}");
        assert!(far.iter().any(|it| it.fsdp == "full_shard"), "{far:?}");
        let pairs = search(&job, &planned, &on(2), None, None).unwrap().meshes;
        let sharded = pairs.iter().find(|it| it.fsdp == "full_shard").unwrap();
        let of_two =
            |fsdp: &str| found.iter().find(|it| it.tensor == 2 && it.fsdp == fsdp).unwrap();
        assert_eq!((sharded.data, sharded.tensor), (4, 1));
        let hybrid = pairs.iter().find(|it| it.fsdp == "hybrid_shard").unwrap();
        assert!(hybrid.memory.weights_bytes > of_two("full_shard").memory.weights_bytes);
        assert!(hybrid.memory.weights_bytes > sharded.memory.weights_bytes);
        let across = MeshSearch { across_hosts: true, ..on(4) };
        let across = search(&job, &planned, &across, None, None).unwrap().meshes;
        assert!(
            across.iter().any(|it| it.pipeline == 2 && it.fsdp == "shard_optimizer"),
            "{across:?}"
        );
        let error = search(&job, &planned, &on(3), None, None).unwrap_err().to_string();
        assert!(error.contains("cannot be divided evenly among 3 hosts"), "{error}");
        // Without room for a whole copy, layers or parameters are divided.
        let room = found[0].memory.bytes_per_core - 1;
        let tight = search(&job, &planned, &on(1), Some(room), None).unwrap().meshes;
        assert!(tight[0].fits && tight[0].memory.bytes_per_core <= room);
        // Without room for any, those are compared that need the least.
        let none = search(&job, &planned, &on(1), Some(1), None).unwrap().meshes;
        assert!(none.iter().all(|it| !it.fits));
        let bytes = |it: &MeshPlan| it.memory.bytes_per_core;
        assert!(none.is_sorted_by_key(bytes) && bytes(&none[0]) < bytes(&tight[0]), "{none:?}");
    }
}
