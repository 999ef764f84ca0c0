//! Plans of jobs: the memory and disk space that a job needs.
//!
//! The runner computes them, since it knows the models. It runs as a short-lived process under
//! tight limits, since it reads the user's `config.json`. Jobs that differ in nothing that
//! affects the plan share one.

pub(crate) mod mpi;
mod process;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use traind_job_file::commands::{MeshSearch, MpiCost, Plan, PlanAnswer, PlanRequest, Processor};
use traind_job_file::{DataFiles, Engine, JobFile, Platform};
use traind_neuron::instruction_limit;

use crate::access::account::Account;
use crate::host::admits_any_count;
use crate::host::meter::Meter;
use crate::jobs::supervisor::environment::planner_environment;
use crate::settings::Settings;
pub(super) use process::PlanError;
use process::{answer, planner};

const TIMEOUT: Duration = Duration::from_secs(20);
/// The limit for a search, which records programs for many meshes.
pub(crate) const SEARCH_TIMEOUT: Duration = Duration::from_secs(120);
/// The most plans in the cache.
const CACHE_MAX: usize = 1024;

/// Files of a model's folder that a plan depends on. Files of weights that an index names change with it.
const FILES: [&str; 5] = [
    "config.json",
    "adapter_config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "adapter_model.safetensors",
];

/// A search among meshes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Search {
    pub meshes: MeshSearch,
    /// Whether the machines may be others than this host, whose memory then does not count.
    pub is_elsewhere: bool,
}

impl Search {
    /// Adds the price of the job's cores, unless it has one itself or is for other machines than those.
    pub(crate) fn priced(mut self, job: &JobFile) -> Search {
        let is_priced = self.meshes.price_per_hour > 0.0 || self.is_elsewhere;
        if let Some(price) = job.resources.price_per_hour.filter(|_| !is_priced) {
            self.meshes.price_per_hour = price;
        }
        self
    }

    /// A search among this host's meshes, for a job that lets the planner choose.
    pub(crate) fn of_auto(job: &JobFile) -> Option<Search> {
        let meshes = MeshSearch { hosts: 1, ..MeshSearch::default() };
        job.parallel.auto.then_some(Search { meshes, is_elsewhere: false })
    }
}

/// A job to plan.
#[derive(Clone, Copy)]
pub(crate) struct PlannedJob<'a> {
    pub job: &'a JobFile,
    /// The account whose rights the planner has.
    pub account: Option<Account>,
    /// Whether the planner may ask the hub for the configuration of a model there.
    pub may_fetch: bool,
    /// Whether the plan says what the job's parallel settings do.
    pub with_effects: bool,
    pub search: Option<&'a Search>,
}

/// The measures of this host.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    processor: Option<Processor>,
    mpi: Option<MpiCost>,
}

/// Runs planners and caches their plans.
#[derive(Debug, Default)]
pub(crate) struct Planner {
    answers: Mutex<HashMap<[u8; 32], Plan>>,
    /// The measures of each account's planners: an account can forge the answers of its own processes.
    measured: Mutex<HashMap<Option<Account>, Measured>>,
}

impl Planner {
    /// Plans a job, and adds the processor time for it to `meter`. Blocks while the planner runs, which includes its
    /// requests to the hub.
    pub(crate) fn plan(
        &self,
        settings: &Settings,
        planned: PlannedJob<'_>,
        meter: &Meter,
    ) -> Result<Plan, PlanError> {
        let PlannedJob { job, account, may_fetch, with_effects, search } = planned;
        let is_elsewhere = search.is_some_and(|search| search.is_elsewhere);
        let bytes_per_core_max = match is_elsewhere {
            true => None,
            // A cluster's hosts may have more memory than this one.
            false if job.resources.engine != Engine::Local => settings.memory_per_core,
            false => bytes_per_core_max(settings, job.resources.cores),
        };
        let meshes = search.map(|search| &search.meshes);
        let key = key(job, bytes_per_core_max, account, (with_effects, meshes))?;
        if let Some(plan) = self.answers().get(&key) {
            return Ok(plan.clone());
        }
        let device = if is_elsewhere { "" } else { own_device(settings, job) };
        let search = meshes.map(|search| self.with_measures(settings, planned, search, meter));
        let is_lasting = search.as_ref().is_none_or(|search| search.mpi_problem.is_empty());
        let mut request = PlanRequest {
            job: job.clone(),
            bytes_per_core_max,
            may_fetch,
            device: device.to_owned(),
            instructions_max: instruction_limit(
                &std::env::var("NEURON_CC_FLAGS").unwrap_or_default(),
            ),
            with_effects,
            search,
        };
        let run = |request: &PlanRequest| {
            let limits = Limits::of(request.search.as_ref());
            let fetches = may_fetch && job.reads_hub();
            let mut command = command(settings, fetches, account, limits);
            answer(&mut command, &serde_json::to_vec(request)?, limits.time, meter)
        };
        let mut answer = run(&request);
        // A compiler that fails or takes long leaves the estimates.
        if let Err(
            PlanError::Refused(_)
            | PlanError::Died { .. }
            | PlanError::Panicked(_)
            | PlanError::Timeout(_),
        ) = answer
            && let Some(search) = &mut request.search
            && search.plugin.take().is_some()
        {
            answer = run(&request);
        }
        let plan = match serde_json::from_slice(&answer?)? {
            // The limit of this host, whatever the planner repeats; that of other machines is their device's.
            PlanAnswer::Plan(plan) if !is_elsewhere => Plan { bytes_per_core_max, ..*plan },
            PlanAnswer::Plan(plan) => *plan,
            PlanAnswer::Violations(violations) => return Err(PlanError::Violations(violations)),
        };
        if let Some(processor) = plan.processor {
            self.measured().entry(account).or_default().processor = Some(processor);
        }
        if is_lasting {
            self.keep(key, &plan);
        }
        Ok(plan)
    }

    /// Caches a plan.
    fn keep(&self, key: [u8; 32], plan: &Plan) {
        let mut answers = self.answers();
        if answers.len() >= CACHE_MAX {
            answers.clear();
        }
        answers.insert(key, plan.clone());
    }

    /// The search with what was measured before, and the cost of MPI if the job's hosts need it.
    fn with_measures(
        &self,
        settings: &Settings,
        planned: PlannedJob<'_>,
        search: &MeshSearch,
        meter: &Meter,
    ) -> MeshSearch {
        let PlannedJob { job, account, .. } = planned;
        let measured = self.measured().get(&account).copied().unwrap_or_default();
        let (processor, any_core_count) = (measured.processor, admits_any_count());
        let mut search = MeshSearch { processor, any_core_count, ..search.clone() };
        let hosts = search.hosts.max(job.resources.hosts);
        if hosts > 1 && job.resources.platform == Platform::Cpu {
            let measure = || mpi::measure(&settings.runner, account, meter);
            let mpi = measured.mpi.map_or_else(measure, Ok);
            match mpi {
                Ok(mpi) => {
                    self.measured().entry(account).or_default().mpi = Some(mpi);
                    search.mpi = Some(mpi);
                }
                Err(error) => search.mpi_problem = error.to_string(),
            }
        }
        search
    }

    fn answers(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Plan>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn measured(&self) -> std::sync::MutexGuard<'_, HashMap<Option<Account>, Measured>> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kind of this host's NeuronCores, if the job is for them.
fn own_device(settings: &Settings, job: &JobFile) -> &'static str {
    let is_here =
        job.resources.engine == Engine::Local && job.resources.platform == Platform::Neuron;
    settings.host.neuron_core().filter(|_| is_here).map_or("", |core| core.kind)
}

/// Memory of a core. Cores of a CPU share the memory of the host or the limit per job.
fn bytes_per_core_max(settings: &Settings, cores: u32) -> Option<u64> {
    if settings.memory_per_core.is_some() {
        return settings.memory_per_core;
    }
    match settings.host.platform.as_str() {
        "cpu" => {
            let shared = [settings.memory_per_job, host_memory()].into_iter().flatten().min();
            shared.map(|bytes| bytes / u64::from(cores.max(1)))
        }
        "neuron" => settings.host.neuron_core().map(|core| core.memory_bytes),
        _ => None,
    }
}

fn host_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Digest of everything that the plan depends on, which a job's name and local output folder are not
/// among. The account is, since plans reveal what a user's files contain.
fn key(
    job: &JobFile,
    bytes_per_core_max: Option<u64>,
    account: Option<Account>,
    asked: (bool, Option<&MeshSearch>),
) -> Result<[u8; 32], PlanError> {
    let mut same = job.clone();
    same.name.clear();
    // A bucket's takes other space on the disk.
    if !DataFiles::is_url(&same.output_dir) {
        same.output_dir = PathBuf::new();
    }
    let mut digest = Sha256::new();
    digest.update(serde_json::to_vec(&(same, account, asked))?);
    digest.update(bytes_per_core_max.unwrap_or_default().to_le_bytes());
    let files = job.weight_folders().flat_map(|(_, folder)| FILES.map(|name| folder.join(name)));
    let data = [&job.data.train, &job.data.validation, &job.data.test];
    let data = data.into_iter().flatten().flat_map(|split| &split.patterns).map(|it| seen(it));
    for path in files.chain(data) {
        let file = std::fs::metadata(path);
        let changed = file.and_then(|metadata| Ok((metadata.len(), metadata.modified()?)));
        if let Ok((length, time)) = changed {
            digest.update(length.to_le_bytes());
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            digest.update(since.as_nanos().to_le_bytes());
        }
    }
    Ok(digest.finalize().into())
}

/// The path whose change shows that other files match a pattern.
fn seen(pattern: &Path) -> PathBuf {
    match DataFiles::is_searched(pattern) {
        true => pattern.parent().unwrap_or(pattern).to_owned(),
        false => pattern.to_owned(),
    }
}

/// The limits of a planner.
#[derive(Clone, Copy)]
struct Limits {
    time: Duration,
    compiles: bool,
}

impl Limits {
    fn of(search: Option<&MeshSearch>) -> Limits {
        let compiles = search.is_some_and(|search| search.plugin.is_some());
        // Half of it remains for estimates alone.
        let of_search = if compiles { SEARCH_TIMEOUT / 2 } else { SEARCH_TIMEOUT / 3 };
        Limits { time: if search.is_some() { of_search } else { TIMEOUT }, compiles }
    }
}

/// The planner: see `traind planner` for its limits.
fn command(
    settings: &Settings,
    fetches: bool,
    account: Option<Account>,
    limits: Limits,
) -> Command {
    let roots = settings.roots.paths().map(|path| format!("--allow-root={}", path.display()));
    let environment = planner_environment(std::env::vars_os(), fetches, account.is_some());
    let mut command = planner(account, environment);
    command.args(roots).args(limits.compiles.then_some("--compile"));
    command.arg(format!("--seconds={}", limits.time.as_secs())).arg(&settings.runner);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_of_this_host_has_the_price_of_the_jobs_cores() {
        let yaml = "name: a\nmodel: {name_or_path: ./a, task: causal-lm}\ndata: {train: a.txt}\n\
                    output_dir: out\nresources: {cores: 2, price_per_hour: 3.5}";
        let job = JobFile::parse(yaml, Path::new("/")).unwrap().job;
        let price = |price_per_hour: f64, is_elsewhere: bool| {
            let meshes = MeshSearch { price_per_hour, ..MeshSearch::default() };
            Search { meshes, is_elsewhere }.priced(&job).meshes.price_per_hour
        };
        assert_eq!(price(0.0, false), 3.5);
        assert_eq!(price(9.0, false), 9.0);
        assert_eq!(price(0.0, true), 0.0);
    }
}
