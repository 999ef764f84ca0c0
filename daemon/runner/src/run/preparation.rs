//! `traind-runner prepare`: prepares a job that waits for its start, so that its first step follows at once.
//!
//! Reads a [`PrepareRequest`] as a line of JSON from standard input and writes a [`PrepareAnswer`] to standard output.
//! Fetches and tokenizes the job's data and compiles its programs, all into the shared caches. It writes nothing
//! else, reads no weights, and ends at once when standard input is closed, since then its daemon has ended.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

use traind_cache::EntryLocks;
use traind_job_file::commands::{PrepareAnswer, PrepareRequest};
use traind_job_file::{Platform, RunSpec};
use traind_loader::panic_message;
use traind_xla::mesh::Mesh;
use traind_xla::runtime::{ExecutableCache, ExecutableSource, LocalCores};

use super::cores::open_cores;
use super::inputs::{Beginning, Inputs};
use super::observer::observer;
use super::prepare::evict_cache;
use super::{Context, guide, neuron_traits};
use crate::error::{RunError, RunResult};
use crate::hosts::Hosts;
use crate::output::failed;
use crate::own_output::answer_daemon;
use crate::recipe;
use crate::remote::Remote;
use crate::reporting::{Activity, Journal, Reporter, Stop};
use crate::session::{Session, cores_to_compile_for};

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    answer_daemon(|request| Ok(prepared(request)))
}

fn prepared(PrepareRequest { spec, folder }: &PrepareRequest) -> PrepareAnswer {
    let start = Instant::now();
    let prepared = catch_unwind(AssertUnwindSafe(|| prepare(spec.clone(), folder.clone())));
    let prepared =
        prepared.unwrap_or_else(|panic| Err(RunError::Panicked(panic_message(panic.as_ref()))));
    // What is left behind is removed by the job's run.
    let _ = fs::remove_dir_all(folder);
    match prepared {
        Ok(sources) => PrepareAnswer::Prepared {
            programs: sources.len() as u32,
            compiled: sources.iter().filter(|it| **it == ExecutableSource::Compiled).count() as u32,
            seconds: start.elapsed().as_secs_f64(),
        },
        Err(error) => PrepareAnswer::Failed { message: error.failure().message },
    }
}

/// Returns the sources of the job's programs.
fn prepare(spec: RunSpec, folder: PathBuf) -> RunResult<Vec<ExecutableSource>> {
    fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
    let context = guide::known(&context(spec, folder)?)?;
    let mesh = recipe::mesh_of_host(&context.spec.job, 0)?;
    let spec = &context.spec;
    if !compiles(spec.job.resources.platform) {
        Inputs::read(&context, mesh, None, Beginning::AllRows)?;
        evict_cache(&context)?;
        return Ok(Vec::new());
    }
    let (inputs, cores) = std::thread::scope(|scope| {
        let cores = scope.spawn(|| cores_of(&context, mesh.clone()));
        let inputs = Inputs::read(&context, mesh.clone(), None, Beginning::AllRows)?;
        let cores =
            cores.join().map_err(|panic| RunError::Panicked(panic_message(panic.as_ref())))??;
        RunResult::Ok((inputs, cores))
    })?;
    let evaluator = |split| inputs.evaluator(&context, split);
    let validation = evaluator(inputs.splits.validation.clone())?;
    let test = evaluator(inputs.splits.test.clone())?;
    let evaluators = [&validation, &test];
    // A job that starts meanwhile must not wait for a program that is compiled at a low priority.
    let cache = ExecutableCache::open(&spec.cache_dir.join("executables"))?.without_turns();
    let (devices, programs) = inputs.declare(&spec.job, cores, cache, evaluators)?;
    let observer = observer(&context.reporter, &context.run_dir);
    let mut session = Session::new(devices, programs, observer);
    let shapes = inputs.programs(&spec.job, &session, evaluators);
    let sources = session.compile_all(&shapes)?;
    evict_cache(&context)?;
    Ok(sources)
}

/// Whether programs can be compiled while other jobs have the cores. The plugin of NeuronCores may do so without cores,
/// which the daemon's administrator says.
fn compiles(platform: Platform) -> bool {
    match platform {
        Platform::Cpu => true,
        Platform::Cuda => false,
        Platform::Neuron => traind_choices::NEURON_PREPARE.is_on(),
    }
}

/// The cores for which programs are compiled.
fn cores_of(context: &Context, mesh: Mesh) -> RunResult<LocalCores> {
    let spec = &context.spec;
    if spec.job.resources.platform != Platform::Neuron {
        return open_cores(spec, mesh, &context.hosts, &context.stop);
    }
    let traits = neuron_traits::kept(&spec.cache_dir);
    Ok(cores_to_compile_for(&spec.plugin, "neuron", spec.cores.len(), mesh, traits)?)
}

/// The context of a run in the preparation's own folder.
fn context(mut spec: RunSpec, run_dir: PathBuf) -> RunResult<Context> {
    let (stop, hosts) = (Stop::default(), Hosts::of(None));
    let journal = Journal::open(&run_dir.join("events.log"))?;
    let remote = Remote::take(&mut spec, &run_dir, journal.clone(), stop.clone());
    let remote = remote.map_err(|source| RunError::Bucket { field: "output_dir", source })?;
    Ok(Context {
        run_dir,
        spec,
        reporter: Reporter { journal, activity: Activity::new() },
        stop,
        remote,
        locks: EntryLocks::default(),
        hosts,
        meeting_place: None,
        is_standalone: false,
        started: Instant::now(),
    })
}
