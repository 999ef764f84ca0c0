//! One run from its spec to its last event: set-up, training, the files it leaves, its outcome.
//!
//! Imports every module but `plan`.

mod context;
mod cores;
pub(crate) mod description;
mod equality;
mod first_rows;
mod first_uses;
mod folders;
mod guide;
mod inputs;
mod neuron_traits;
mod observer;
pub(crate) mod preparation;
mod prepare;
mod program_files;
mod save;
pub(crate) mod standalone;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use traind_job_file::commands::error_lines;
use traind_job_file::{Engine, JobFile, Platform, Train};
use traind_loader::{TokenizedSet, panic_message};
use traind_mpi::{PmiServer, Process, World};
use traind_proto::sample_ledger::LedgerHead;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Failure, Finished, Outcome, Phase, Started};
use traind_rendezvous::host_name;

use crate::checkpoint::{self, CheckpointedRun, Checkpoints, SavedState};
use crate::error::{RunError, RunResult};
use crate::hosts::{Published, StopAgreement, Watched};
use crate::metrics::Metrics;
use crate::model::OpenModel;
use crate::output::{self, Reports};
use crate::profile::HostCores;
use crate::progress::{BestRule, PlateauRule, Progress, Timetable};
use crate::recipe::{mesh_of_host, step_metrics};
use crate::remote::Publication;
use crate::reporting::{RunnerService, StepGates, print_line};
use crate::session::Session;
use crate::training::{
    EvaluationsAndCheckpoints, Ledger, StepLog, TrainRows, Trainer, Updates, prefetch,
};

pub(crate) use context::Context;

use prepare::{Prepared, prepare};

/// The longest path of a unix socket on Linux.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The end of a run that did not fail.
#[derive(Debug, Default)]
struct Ended {
    stopped: bool,
    steps: u64,
    /// 0 of a run that does not train.
    max_steps: u64,
    epoch: f64,
    metrics: Metrics,
}

impl Ended {
    fn new(train: &Train, timetable: &Timetable, progress: &Progress) -> Ended {
        Ended {
            stopped: progress.stopped.is_some(),
            steps: progress.steps,
            max_steps: if train.do_train { timetable.max_steps } else { 0 },
            epoch: timetable.epoch(progress.steps),
            metrics: Metrics::default(),
        }
    }
}

/// Runs the job and records its outcome. A panic is a failure like any other.
pub(crate) fn run(context: &Context) -> RunResult<Outcome> {
    let work = || {
        record_start(context)?;
        serve(context)?;
        publish(context)?;
        meet(context)?;
        let ended = execute(context)?;
        end_mpi(context)?;
        context.hosts.complete()?;
        Ok(ended)
    };
    let result = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(RunError::Panicked(panic_message(panic.as_ref()))));
    let mut finished = Finished {
        seconds: context.started.elapsed().as_secs_f64(),
        steps: context.reporter.activity.status().step,
        ..Finished::default()
    };
    let outcome = match result {
        Ok(ended) => {
            finished.steps = ended.steps;
            finished.max_steps = ended.max_steps;
            finished.epoch = ended.epoch;
            finished.metrics = ended.metrics.into_iter().collect();
            if ended.stopped { Outcome::Cancelled } else { Outcome::Completed }
        }
        // Stopped before training, when there is nothing to save.
        Err(error) if error.is_abandoned() && context.stop.reason().is_some() => {
            context.hosts.abandon();
            Outcome::Cancelled
        }
        Err(error) => {
            context.hosts.expect_loss(&error);
            let begun = finished.steps > 0 || context.spec.attempt > 1;
            let transient = error.is_transient(begun);
            let mut failure = Failure { transient, ..error.failure() };
            context.hosts.blame(&mut failure);
            print_line(error_lines(&format!("error: {}", failure.message)));
            finished.failure = Some(failure);
            Outcome::Failed
        }
    };
    finished.outcome = outcome.into();
    if outcome == Outcome::Completed {
        guide::remove(context);
        finished.output_dir = context.remote.output_name(&context.spec.job.output_dir);
    }
    finished.energy_joules = context.reporter.activity.energy_joules();
    let failure = finished.failure.clone();
    context.reporter.journal.record_last(Kind::Finished(finished))?;
    if let Some(failure) = failure {
        context.hosts.fail(&failure);
    }
    context.hosts.limit_exit();
    Ok(outcome)
}

/// Prepares, trains, evaluates and saves.
fn execute(context: &Context) -> RunResult<Ended> {
    let (job, hosts) = (&context.spec.job, &context.hosts);
    let _claims = folders::claim(context)?;
    let publication = if hosts.is_first() { context.remote.publish()? } else { None };
    equality::check_job(context)?;
    let context = &guide::known(context)?;
    let (mut session, mut prepared) = prepare(context)?;
    let first = prepared.first.take();
    let Prepared { resumed, open, sampler, collator, timetable, .. } = &prepared;
    if session.is_over_hosts() {
        equality::check_common(hosts, job.checkpoints())?;
    }
    if hosts.is_first() {
        let (bytes, is_over_hosts) = (session.host_bytes(), session.is_over_hosts());
        checkpoint::check_disk_space(
            job,
            SavedState { bytes, is_over_hosts },
            timetable,
            open,
            resumed.as_ref(),
            context.remote.staged_max,
        )?;
    }
    let mut trainer = trainer(context, &session, &prepared, publication.as_ref())?;
    let done = trainer.progress.steps;
    let rows = TrainRows { sampler: sampler.clone(), collator: collator.clone(), first };
    let profiler = &context.reporter.activity.profiler;
    let batches = prefetch(job, &session, rows, timetable, done, profiler)?;
    trainer.run(&mut session, batches)?;
    let mut checkpoints = trainer.pauses.checkpoints.take();
    let progress = &trainer.progress;
    let is_stopped = progress.stopped.is_some();
    if is_stopped || !hosts.is_alone() || best_elsewhere(job, progress).is_some() {
        finish(checkpoints.take())?;
        // The others may read the first host's checkpoints from here on.
        hosts.barrier("checkpoints")?;
    }
    if is_stopped {
        return Ok(Ended::new(&job.train, &trainer.timetable, progress));
    }
    if job.train.do_train {
        let summary = save::train_summary(&trainer.timetable, &trainer.progress);
        trainer.log.write_summary(&mut trainer.progress, summary)?;
    }
    session.begin_evaluation()?;
    load_best(context, &mut session, &prepared.open, &mut trainer.progress)?;
    evaluate_and_save(context, session, &prepared, trainer, checkpoints, publication.as_ref())
}

/// Waits for the checkpoints that are being written.
fn finish(checkpoints: Option<Checkpoints>) -> RunResult<()> {
    checkpoints.map_or(Ok(()), Checkpoints::finish)
}

fn trainer<'a>(
    context: &Context,
    session: &Session,
    prepared: &'a Prepared,
    publication: Option<&Publication>,
) -> RunResult<Trainer<EvaluationsAndCheckpoints<'a>>> {
    let job = &context.spec.job;
    let Prepared { resumed, open, timetable, .. } = prepared;
    let (resumed, reporter) = (resumed.as_ref(), &context.reporter);
    let progress = Progress {
        checkpoint_dir: context.remote.checkpoints_name(job.checkpoints()),
        ..resumed.map_or_else(Progress::default, |resumed| resumed.progress(job.checkpoints()))
    };
    let reports = match context.hosts.is_first() {
        true => {
            let (config, logged) = (open.model.config().keys(), &progress.log_history);
            Reports::open(&context.spec, &host_name(), config, logged, &reporter.journal)?
        }
        false => Reports::default(),
    };
    Ok(Trainer {
        timetable: timetable.clone(),
        updates: Updates::new(timetable.clone(), Arc::clone(session.optimizers())),
        progress,
        pauses: pauses(context, session, prepared, publication)?,
        log: StepLog::new(
            reporter.journal.clone(),
            reports,
            timetable.clone(),
            job.train.include_num_input_tokens_seen,
            step_metrics(job),
        ),
        ledger: context
            .hosts
            .is_first()
            .then(|| Ledger::open(&context.run_dir, ledger_head(job, prepared.collator.set())))
            .transpose()?,
        reporter: reporter.clone(),
        stop: context.stop.clone(),
        agreement: StopAgreement::new(context.hosts.clone(), context.stop.clone()),
        gates: StepGates::from_environment(&job.name),
        cores: HostCores {
            count: context.spec.cores.len(),
            are_processors: job.resources.platform == Platform::Cpu,
        },
    })
}

fn pauses<'a>(
    context: &Context,
    session: &Session,
    prepared: &'a Prepared,
    publication: Option<&Publication>,
) -> RunResult<EvaluationsAndCheckpoints<'a>> {
    let train = &context.spec.job.train;
    let Prepared { resumed, open, recipe, timetable, .. } = prepared;
    Ok(EvaluationsAndCheckpoints {
        timetable: timetable.clone(),
        evaluator: prepared.validation.as_ref(),
        checkpoints: Checkpoints::start(&CheckpointedRun {
            spec: &context.spec,
            reporter: &context.reporter,
            open,
            recipe,
            resumed: resumed.as_ref(),
            remote: &context.remote,
            publication,
            hosts: &context.hosts,
            is_over_hosts: session.is_over_hosts(),
        })?,
        best_rule: BestRule::of(train),
        plateau_rule: PlateauRule::of(train),
        save_strategy: train.save_strategy,
        save_only_model: train.save_only_model,
        eval_on_start: train.eval_on_start,
    })
}

fn ledger_head(job: &JobFile, set: &TokenizedSet) -> LedgerHead {
    let files = set.files().iter().map(|file| (file.path.display().to_string(), file.rows));
    let mut sets: Vec<u32> = set.files().iter().map(|file| file.set).collect();
    if sets.iter().all(|set| *set == 0) {
        sets.clear();
    }
    LedgerHead { rows_per_step: job.total_train_batch_size() as u32, files: files.collect(), sets }
}

/// Evaluates the model, unless that is done, and writes the files of the output folder.
fn evaluate_and_save(
    context: &Context,
    mut session: Session,
    prepared: &Prepared,
    trainer: Trainer<EvaluationsAndCheckpoints<'_>>,
    checkpoints: Option<Checkpoints>,
    publication: Option<&Publication>,
) -> RunResult<Ended> {
    let (job, is_first) = (&context.spec.job, context.hosts.is_first());
    let Trainer { timetable, mut progress, pauses, mut log, .. } = trainer;
    let evaluated = progress.evaluation.as_ref().map(|(step, _)| *step);
    if evaluated != Some(progress.steps) {
        pauses.evaluate(&mut session, &mut progress, &mut log)?;
    }
    if let (Some(evaluator), Some((_, evaluation))) = (&prepared.validation, &progress.evaluation)
        && is_first
    {
        evaluator.write_report(&job.output_dir, evaluation)?;
    }
    if job.train.do_train {
        let files = save::save_model(context, &session, prepared)?;
        // The checkpoint of the last step is written meanwhile. Both are recorded in the folder.
        finish(checkpoints)?;
        if let Some(files) = files {
            save::save_rest(context, prepared, &timetable, &progress, files)?;
        }
    }
    let mut metrics = match job.train.do_train {
        true => save::final_metrics(&progress),
        false => progress.evaluation_metrics().cloned().unwrap_or_default(),
    };
    if let Some(test) = &prepared.test {
        let epoch = timetable.epoch(progress.steps);
        let evaluation = test.run(&mut session, "test", progress.steps, epoch)?;
        if job.train.do_predict && is_first {
            test.write_predictions(&job.output_dir, &evaluation)?;
        }
        metrics.extend(evaluation.metrics);
    }
    if is_first {
        output::record_results(&job.output_dir)?;
    }
    context.reporter.activity.enter(Phase::Checkpoint);
    log.finish()?;
    if let Some(publication) = publication {
        publication.finish(&job.output_dir, progress.steps)?;
    }
    if is_first && job.train.do_train {
        checkpoint::keep_best_alone(&context.spec, &context.remote, progress.best.checkpoint)?;
    }
    match is_first {
        true => context.remote.upload_output(&job.output_dir, progress.steps)?,
        false => context.remote.remove_staged(&job.output_dir)?,
    }
    Ok(Ended { metrics, ..Ended::new(&job.train, &timetable, &progress) })
}

/// With `load_best_model_at_end`, puts the parameters of the best checkpoint on the cores. They
/// must be evaluated again for the report.
fn load_best(
    context: &Context,
    session: &mut Session,
    open: &OpenModel,
    progress: &mut Progress,
) -> RunResult<()> {
    let job = &context.spec.job;
    let Some(step) = best_elsewhere(job, progress) else { return Ok(()) };
    let folder = output::checkpoint_folder(job.checkpoints(), step);
    checkpoint::provide(&context.hosts, &context.remote, &folder, step)?;
    session.set_saved_parameters(&checkpoint::load_checked(&folder, open.model.as_ref())?)?;
    progress.evaluation = None;
    let message = format!("loaded the best model, which is that of step {step}");
    Ok(context.reporter.journal.info(message)?)
}

/// The step of the best checkpoint, if its parameters are to be loaded and are not those on the cores.
fn best_elsewhere(job: &JobFile, progress: &Progress) -> Option<u64> {
    let best = progress.best.checkpoint.filter(|_| job.train.load_best_model_at_end);
    best.filter(|step| *step != progress.steps)
}

/// Records the run's first event.
fn record_start(context: &Context) -> RunResult<()> {
    let spec = &context.spec;
    Ok(context.reporter.journal.record(Kind::Started(Started {
        pid: std::process::id(),
        cores: spec.cores.clone(),
        platform: spec.job.resources.platform.to_string(),
        device_kind: spec.device_kind.clone(),
        attempt: spec.attempt,
    }))?)
}

fn serve(context: &Context) -> RunResult<()> {
    let path = context.run_dir.join("runner.sock");
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        let message = format!("{} is too long; nobody can ask for the status", path.display());
        return Ok(context.reporter.journal.warn("SOCKET_PATH_TOO_LONG", message)?);
    }
    let service = RunnerService {
        job_id: context.spec.job_id.clone(),
        job_name: context.spec.job.name.clone(),
        attempt: context.spec.attempt,
        cores: context.spec.cores.clone(),
        activity: context.reporter.activity.clone(),
        stop: context.stop.clone(),
    };
    service.spawn(&context.run_dir).map_err(RunError::Service)
}

/// Reports the status of all hosts in the run folder, unless a daemon of this host asks by the socket.
fn publish(context: &Context) -> RunResult<()> {
    let is_followed_here =
        !context.is_standalone && context.spec.job.resources.engine == Engine::Local;
    if is_followed_here || !context.hosts.is_first() {
        return Ok(());
    }
    context.hosts.publish(Published {
        run_dir: context.run_dir.clone(),
        attempt: context.spec.attempt,
        cores: context.spec.cores.clone(),
        activity: context.reporter.activity.clone(),
        stop: context.stop.clone(),
    })
}

/// Waits for the other hosts of the job.
fn meet(context: &Context) -> RunResult<()> {
    let Some(place) = context.meeting_place.clone() else { return Ok(()) };
    let watched = Watched {
        reporter: context.reporter.clone(),
        cores: context.spec.cores.clone(),
        started: context.started,
        stop: context.stop.clone(),
    };
    // Hosts may come late, or never.
    let (hosts, met) = (
        context.hosts.clone(),
        format!("all hosts of the job have met; this is {}", place.placement),
    );
    context.stop.abandon("meet", Duration::ZERO, move || hosts.meet(&place, watched))??;
    start_mpi(context)?;
    Ok(context.reporter.journal.info(met)?)
}

/// Joins MPI, which carries the reductions of CPUs across hosts, and on every platform the values between stages on
/// different hosts.
fn start_mpi(context: &Context) -> RunResult<()> {
    let (hosts, spec) = (&context.hosts, &context.spec);
    let is_cpu = spec.job.resources.platform == Platform::Cpu;
    if !is_cpu && spec.job.pipeline_hosts() == 1 {
        return Ok(());
    }
    let Some(connection) = hosts.serve_mpi()? else { return Ok(()) };
    let pmi = Some(PmiServer { connection: connection.into() });
    // Programs reduce over the hosts with the same stages.
    let group = mesh_of_host(&spec.job, hosts.rank())?.pipeline_place();
    let process = Process { rank: hosts.rank(), size: hosts.size(), group, pmi };
    // Programs of other platforms do not call MPI.
    let devices = if is_cpu { spec.cores.len() } else { 0 };
    let start = move || World::start(&traind_mpi::installed_library(), process, devices).map(drop);
    let started = context.stop.abandon("mpi-start", Duration::ZERO, start)?;
    started.map_err(|error| RunError::Device(error.into()))
}

/// Leaves MPI, which all hosts do at their ends.
fn end_mpi(context: &Context) -> RunResult<()> {
    let Ok(world) = World::current() else { return Ok(()) };
    let patience = context.hosts.stop_patience();
    let finished = context.stop.abandon("mpi-finish", patience, || world.finish())?;
    finished.map_err(|error| RunError::Device(error.into()))
}
