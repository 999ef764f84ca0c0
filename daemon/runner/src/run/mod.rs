//! One run from its spec to its last event: set-up, training, the files it leaves, its outcome.
//!
//! Imports every room but `plan`.

mod prepare;
mod save;
mod settings;

use std::panic::{AssertUnwindSafe, catch_unwind};

use traind_loader::{TokenizedSet, panic_message};
use traind_proto::sample_ledger::{LedgerHead, SampleLedger};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Failure, Finished, Outcome, Started};

use crate::checkpoint::{self, Checkpoints, Resumed};
use crate::control::{Context, StepGates, say, service};
use crate::error::{RunError, RunResult};
use crate::metrics::Metrics;
use crate::model::OpenModel;
use crate::output::{self, TensorBoardWriter};
use crate::progress::{BestRule, Progress};
use crate::session::Session;
use crate::training::{OpenStep, Trainer};

use prepare::{Prepared, prepare};
use save::save;

/// How a run ended that did not fail.
#[derive(Debug, Default)]
struct Ended {
    stopped: bool,
    steps: u64,
    metrics: Metrics,
}

/// Runs the job and records how it ended; a panic is a failure like others.
pub(crate) fn run(context: &Context) -> RunResult<Outcome> {
    let work = || {
        started(context)?;
        service::serve(context).map_err(RunError::Service)?;
        train(context)
    };
    let result = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(RunError::Panicked(panic_message(panic.as_ref()))));
    let mut finished = Finished {
        seconds: context.started.elapsed().as_secs_f64(),
        steps: context.activity.snapshot().step,
        ..Finished::default()
    };
    let outcome = match result {
        Ok(ended) => {
            finished.steps = ended.steps;
            finished.metrics = ended.metrics.into_iter().collect();
            if ended.stopped { Outcome::Cancelled } else { Outcome::Completed }
        }
        // Stopped while rows were tokenized: there is nothing to save yet.
        Err(RunError::Data(traind_loader::Error::Abandoned)) if context.stop.reason().is_some() => {
            Outcome::Cancelled
        }
        Err(error) => {
            let began = finished.steps > 0 || context.spec.attempt > 1;
            let transient = error.is_transient(began);
            let failure = Failure { transient, ..error.failure() };
            say(format_args!("error: {}", failure.message));
            finished.failure = Some(failure);
            Outcome::Failed
        }
    };
    finished.outcome = outcome.into();
    if outcome == Outcome::Completed {
        finished.output_dir = context.spec.job.output_dir.display().to_string();
    }
    context.journal.conclude(Kind::Finished(finished))?;
    Ok(outcome)
}

/// Loads, compiles, trains, evaluates and saves.
fn train(context: &Context) -> RunResult<Ended> {
    let job = &context.spec.job;
    output::create_folder(&job.output_dir)?;
    let prepared = prepare(context)?;
    let Prepared { mut session, resumed, open, recipe, timetable, .. } = prepared;
    let room = resumed.as_ref();
    checkpoint::check_room(context, &session.state, &timetable, &open.folder, room)?;
    let tensorboard = job.train.report_to.tensorboard.then(|| job.output_dir.join("runs"));
    let tensorboard = tensorboard.map(|folder| TensorBoardWriter::create(&folder, &host_name()));
    let ledger = ledger(context, prepared.collator.set())?;
    let mut trainer = Trainer {
        context,
        timetable,
        sampler: prepared.sampler,
        collator: prepared.collator,
        evaluator: prepared.validation.as_ref(),
        tensorboard: tensorboard.transpose()?,
        checkpoints: Checkpoints::start(context, &open, recipe, resumed.as_ref())?,
        best_rule: BestRule::of(&job.train),
        progress: resumed.as_ref().map_or_else(Progress::default, Resumed::progress),
        open: OpenStep::default(),
        ledger,
        gates: StepGates::from_environment(&job.name),
    };
    trainer.run(&mut session)?;
    if let Some(checkpoints) = trainer.checkpoints.take() {
        checkpoints.finish()?;
    }
    if trainer.progress.stopped.is_some() {
        let steps = trainer.progress.steps;
        return Ok(Ended { stopped: true, steps, ..Ended::default() });
    }
    if job.train.do_train {
        let summary = save::train_summary(&trainer.timetable, &trainer.progress);
        trainer.progress.log_history.push(summary);
    }
    load_best(context, &mut session, &open, &mut trainer.progress)?;
    let evaluated = trainer.progress.evaluation.as_ref().map(|(step, _)| *step);
    if evaluated != Some(trainer.progress.steps) {
        trainer.evaluate(&mut session)?;
    }
    let (timetable, progress) = (trainer.timetable, trainer.progress);
    if let (Some(evaluator), Some((_, evaluation))) = (&prepared.validation, &progress.evaluation) {
        evaluator.write_report(&job.output_dir, evaluation)?;
    }
    let rows = prepared.train_rows;
    let mut metrics = match job.train.do_train {
        true => save(context, &session, &open, &timetable, &progress, rows)?,
        false => progress.evaluation.as_ref().map(|(_, of)| of.metrics.clone()).unwrap_or_default(),
    };
    if let Some(test) = &prepared.test {
        let epoch = timetable.epoch(progress.steps);
        let evaluation = test.run(context, &mut session, "test", progress.steps, epoch)?;
        if job.train.do_predict {
            test.write_predictions(&job.output_dir, &evaluation)?;
        }
        metrics.extend(evaluation.metrics);
    }
    Ok(Ended { stopped: false, steps: progress.steps, metrics })
}

/// The record of the rows that each step is given.
fn ledger(context: &Context, set: &TokenizedSet) -> RunResult<SampleLedger> {
    let files = set.files().iter().map(|file| (file.path.display().to_string(), file.rows));
    let rows_per_step = context.spec.job.total_train_batch_size() as u32;
    let head = LedgerHead { rows_per_step, files: files.collect() };
    let run_dir = &context.run_dir;
    SampleLedger::open(run_dir, head).map_err(output::failed("open the sample ledger in", run_dir))
}

/// With `load_best_model_at_end`, puts the weights of the best checkpoint on
/// the cores. Its evaluation is to be repeated for what is saved with it.
fn load_best(
    context: &Context,
    session: &mut Session,
    open: &OpenModel,
    progress: &mut Progress,
) -> RunResult<()> {
    let job = &context.spec.job;
    let best = progress.best.checkpoint.filter(|_| job.train.load_best_model_at_end);
    let Some(step) = best.filter(|step| *step != progress.steps) else { return Ok(()) };
    let folder = job.output_dir.join(checkpoint::folder_name(step));
    session.set_parameters(&checkpoint::load_whole(&folder, open.model.as_ref())?)?;
    progress.evaluation = None;
    let message = format!("the model is that of step {step}, which was the best");
    Ok(context.journal.info(message)?)
}

/// The run's first event.
fn started(context: &Context) -> RunResult<()> {
    let spec = &context.spec;
    Ok(context.journal.record(Kind::Started(Started {
        pid: std::process::id(),
        cores: spec.cores.clone(),
        platform: spec.job.resources.platform.to_string(),
        device_kind: spec.device_kind.clone(),
        attempt: spec.attempt,
    }))?)
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
