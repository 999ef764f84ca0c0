//! One run from its spec to its last event.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use traind_job_file::{JobFile, Optim, Train, TrainSamplingStrategy};
use traind_loader::{
    Buckets, Collator, Masking, Sampler, SamplerConfig, SamplingStrategy, TextTokenizer,
    TokenizedSet, panic_message,
};
use traind_models::tasks::LabelSmoother;
use traind_models::{Model, optimizers};
use traind_proto::sample_ledger::{LedgerHead, SampleLedger};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Finished, Outcome, Started};
use traind_xla::DType;
use traind_xla::mesh::{self, Axis, Mesh};
use traind_xla::runtime::{Cores, ExecutableCache, LazyDevice};

use crate::batch::BatchLayout;
use crate::best::BestRule;
use crate::checkpoint::{self, Checkpoints, Recipe, Resumed};
use crate::context::Context;
use crate::data::{self, Splits};
use crate::eval_step::EvalStep;
use crate::evaluate::{Batching, Evaluator};
use crate::failure::{RunError, RunResult};
use crate::forward::ForwardPass;
use crate::journal::say;
use crate::metrics::Metrics;
use crate::model::{ModelFolder, OpenModel};
use crate::output::{self, TensorBoardWriter};
use crate::programs::{Program, ProgramShape};
use crate::progress::Progress;
use crate::save::save;
use crate::schedule::Timetable;
use crate::service;
use crate::session::{Session, Steps, open_cores};
use crate::shapes;
use crate::state::{StartValues, StateSettings, TrainState};
use crate::tasks;
use crate::train_step::TrainStep;
use crate::trainer::{OpenStep, Trainer};
use crate::work::Precision;

/// Steps that a padded length must serve on average: each costs a program to compile, and saves
/// padding in every step.
const STEPS_PER_LENGTH: u64 = 25;

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
            let failure = error.failure();
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
    let log_folder = job.output_dir.join("runs");
    let ledger = ledger(context, prepared.collator.set())?;
    let mut trainer = Trainer {
        context,
        timetable,
        sampler: prepared.sampler,
        collator: prepared.collator,
        evaluator: prepared.validation.as_ref(),
        tensorboard: TensorBoardWriter::create(&log_folder, &host_name())?,
        checkpoints: Checkpoints::start(context, &open, recipe, resumed.as_ref())?,
        best_rule: BestRule::of(&job.train),
        progress: resumed.as_ref().map_or_else(Progress::default, Resumed::progress),
        open: OpenStep::default(),
        ledger,
    };
    trainer.run(&mut session)?;
    if let Some(checkpoints) = trainer.checkpoints.take() {
        checkpoints.finish()?;
    }
    if trainer.progress.stopped.is_some() {
        let steps = trainer.progress.steps;
        return Ok(Ended { stopped: true, steps, ..Ended::default() });
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

/// Everything that is ready before the first step.
struct Prepared {
    resumed: Option<Resumed>,
    recipe: Recipe,
    train_rows: u64,
    collator: Collator,
    open: OpenModel,
    session: Session,
    sampler: Sampler,
    timetable: Timetable,
    validation: Option<Evaluator>,
    test: Option<Evaluator>,
}

fn prepare(context: &Context) -> RunResult<Prepared> {
    // The plugin is a large library: it loads while the data are read.
    std::thread::scope(|scope| {
        let cores = scope.spawn(|| open_cores(context));
        let inputs = prepare_inputs(context)?;
        let cores =
            cores.join().map_err(|panic| RunError::Panicked(panic_message(panic.as_ref())))??;
        inputs.compile(context, cores)
    })
}

/// What is known before the cores are touched.
struct Inputs {
    resumed: Option<Resumed>,
    recipe: Recipe,
    splits: Splits,
    open: OpenModel,
    sampler: Sampler,
    timetable: Timetable,
    buckets: Buckets,
    padding: Padding,
}

fn prepare_inputs(context: &Context) -> RunResult<Inputs> {
    let job = &context.spec.job;
    let resumed = checkpoint::find(context)?;
    let folder = ModelFolder::open(&job.model, context)?;
    let positions = folder.positions(&job.model)?;
    shapes::check_lengths(job, positions)?;
    let task = tasks::of_job(job, &folder.config)?;
    let limit = shapes::length_limit(job, task.as_ref(), positions);
    let tokenizer = folder.tokenizer(job.data.max_length, limit)?;
    let max_length = tokenizer.max_length().unwrap_or(limit).min(limit);
    let splits = data::prepare(context, task.as_ref(), &tokenizer, max_length)?;
    let padding = Padding {
        pad_token_id: folder.pad_token_id(&tokenizer)?,
        masking: task.masking(&tokenizer)?,
    };
    let buckets = shapes::buckets(job, task.as_ref(), max_length, positions)?;
    let open = folder.build(&job.model, task, splits.encoder.as_ref(), &tokenizer)?;
    let lengths = splits.planned()?.set.lengths();
    let sampler = Sampler::new(sampler_config(context), lengths, buckets.clone())?;
    let timetable = Timetable::new(&job.train, sampler.steps_per_epoch() as u64)?;
    let lengths_max = (timetable.max_steps / STEPS_PER_LENGTH).clamp(6, 12) as usize;
    let sampler = shapes::fitted(job, sampler, lengths_max)?;
    let recipe = Recipe::of(job, splits.planned()?.set.len() as u64);
    evict(context)?;
    Ok(Inputs { resumed, recipe, splits, open, sampler, timetable, buckets, padding })
}

/// Keeps the cache within its size, now that the run holds what it needs of it.
fn evict(context: &Context) -> RunResult<()> {
    let Some(bytes_max) = context.spec.cache_bytes_max else { return Ok(()) };
    let cache_dir = &context.spec.cache_dir;
    let folders = ["hub", "objects", "tokens"].map(|name| cache_dir.join(name));
    match traind_loader::evict(&folders, bytes_max) {
        Ok(0) => {}
        Ok(bytes) => {
            let (mib, folder) = (bytes.div_ceil(1 << 20), cache_dir.display());
            let message = format!("removed {mib} MiB of {folder} that no job used for long");
            context.journal.info(message)?;
        }
        Err(error) => {
            let message = format!("{}: {error}", cache_dir.display());
            context.journal.warn("CACHE_NOT_CLEANED", message)?;
        }
    }
    Ok(())
}

/// What the collator does to rows besides padding them.
struct Padding {
    pad_token_id: u32,
    masking: Option<Masking>,
}

impl Padding {
    fn collator(&self, set: &Arc<TokenizedSet>) -> Collator {
        let collator = Collator::new(Arc::clone(set), self.pad_token_id);
        match &self.masking {
            Some(masking) => collator.with_masking(masking.clone()),
            None => collator,
        }
    }
}

fn sampler_config(context: &Context) -> SamplerConfig {
    let train = &context.spec.job.train;
    SamplerConfig {
        batch_per_core: train.per_device_train_batch_size as usize,
        cores: context.spec.cores.len(),
        seed: context.spec.job.data_seed(),
        strategy: match train.train_sampling_strategy {
            TrainSamplingStrategy::Random => SamplingStrategy::Random,
            TrainSamplingStrategy::Sequential => SamplingStrategy::Sequential,
            TrainSamplingStrategy::GroupByLength => SamplingStrategy::GroupByLength,
        },
        drop_last: train.dataloader_drop_last && train.do_train,
    }
}

impl Inputs {
    /// Puts the model on the cores and compiles every program of the run.
    fn compile(self, context: &Context, cores: Cores) -> RunResult<Prepared> {
        let job = &context.spec.job;
        let validation = self.evaluator(context, self.splits.validation.clone())?;
        if let (Some(rule), Some(evaluator)) = (BestRule::of(&job.train), &validation) {
            rule.check(&evaluator.metric_names("eval"))?;
        }
        let test = self.evaluator(context, self.splits.test.clone())?;
        let mut session = self.session(context, cores)?;
        let evaluators = [&validation, &test].into_iter().flatten();
        let mut wanted = self.training_programs(job, &session);
        for evaluator in evaluators {
            wanted.extend(evaluator.programs(job.train.per_device_eval_batch_size as usize));
        }
        session.prepare(context, &wanted)?;
        context.activity.holds(session.memory());
        context.activity.can_do(session.peak(precision(&job.train)).unwrap_or_default());
        context.activity.has(session.memory_of_a_core().unwrap_or_default());
        let train = &self.splits.planned()?.set;
        let (train_rows, collator) = (train.len() as u64, self.padding.collator(train));
        let Inputs { resumed, recipe, open, sampler, timetable, .. } = self;
        Ok(Prepared {
            resumed,
            recipe,
            train_rows,
            collator,
            open,
            session,
            sampler,
            timetable,
            validation,
            test,
        })
    }

    fn training_programs(&self, job: &JobFile, session: &Session) -> Vec<ProgramShape> {
        let program = match session.steps() {
            Steps::OneProgram => Program::Train,
            Steps::Accumulated => Program::Accumulate,
        };
        let rows = job.train.per_device_train_batch_size as usize;
        let batches = self.timetable.batches_before(self.timetable.max_steps);
        let shape = |length: u32| ProgramShape { program, rows, positions: length as usize };
        let mut programs: Vec<_> = self.sampler.shapes(batches).into_iter().map(shape).collect();
        if program == Program::Accumulate {
            programs.push(ProgramShape::UPDATE);
        }
        programs
    }

    fn evaluator(
        &self,
        context: &Context,
        split: Option<data::Split>,
    ) -> RunResult<Option<Evaluator>> {
        let Some(split) = split else { return Ok(None) };
        let task = Arc::clone(&self.open.task);
        let batching = Batching {
            buckets: self.buckets.clone(),
            rows_per_core: context.spec.job.train.per_device_eval_batch_size as usize,
            cores: context.spec.cores.len(),
        };
        let labels = task.labels(self.open.model.config())?;
        let collator = self.padding.collator(&split.set);
        Evaluator::new(&context.spec.job, split, task, labels, batching, collator).map(Some)
    }

    fn session(&self, context: &Context, cores: Cores) -> RunResult<Session> {
        let job = &context.spec.job;
        let model = &self.open.model;
        let optimizer: Arc<dyn optimizers::Optimizer> =
            optimizers::build(optimizer_name(job), &optimizer_settings(job))?.into();
        let forward = forward_pass(job, model)?;
        let train = TrainStep {
            forward: forward.clone(),
            optimizer: Arc::clone(&optimizer),
            data_groups: job_mesh(job, cores.len())?.groups(&[Axis::Data]),
            loss_divisor: job.total_train_batch_size().next_power_of_two() as f64,
        };
        let evaluate = EvalStep { forward, readout: self.open.task.readout() };
        let start = self.start_values(context)?;
        let cache = ExecutableCache::open(&context.spec.cache_dir.join("executables"))?;
        let settings = state_settings(job);
        let device = LazyDevice::new(cores, Some(cache), job.train.tf32);
        Session::new(device, train, evaluate, |device| {
            TrainState::create(device, model, &optimizer, &start, settings)
        })
    }

    fn start_values(&self, context: &Context) -> RunResult<StartValues> {
        let Some(resumed) = &self.resumed else {
            let parameters = self.open.load_weights(context)?;
            return Ok(StartValues { parameters, ..StartValues::default() });
        };
        let start = Instant::now();
        let values = resumed.load(context, self.open.model.as_ref(), &self.recipe)?;
        self.open.resumed(context, start)?;
        Ok(values)
    }
}

fn forward_pass(job: &JobFile, model: &Arc<dyn Model>) -> RunResult<ForwardPass> {
    let train = &job.train;
    let smoothed = train.label_smoothing_factor > 0.0;
    let smoother = smoothed.then(|| LabelSmoother::new(train.label_smoothing_factor));
    Ok(ForwardPass {
        model: Arc::clone(model),
        layout: BatchLayout::of(model.as_ref()),
        compute_dtype: compute_dtype(train),
        smoother: smoother.transpose()?,
        gradient_checkpointing: train.gradient_checkpointing,
    })
}

fn compute_dtype(train: &Train) -> DType {
    match train {
        Train { bf16: true, .. } => DType::BF16,
        Train { fp16: true, .. } => DType::F16,
        _ => DType::F32,
    }
}

fn precision(train: &Train) -> Precision {
    match compute_dtype(train) {
        DType::F32 if train.tf32 => Precision::TensorFloat32,
        DType::F32 => Precision::Float32,
        _ => Precision::Half,
    }
}

fn job_mesh(job: &JobFile, cores: usize) -> RunResult<Mesh> {
    let parallel = &job.parallel;
    let (tensor, pipeline) = (parallel.tensor as usize, parallel.pipeline as usize);
    let placement = match parallel.placement {
        traind_job_file::Placement::Cluster => mesh::Placement::Cluster,
        traind_job_file::Placement::Spread => mesh::Placement::Spread,
    };
    Ok(Mesh::new(cores / (tensor * pipeline).max(1), tensor, pipeline, placement)?)
}

/// A job that does not train has the optimizer that keeps no state.
fn optimizer_name(job: &JobFile) -> &'static str {
    if job.train.do_train { job.train.optim.as_str() } else { Optim::Sgd.as_str() }
}

fn optimizer_settings(job: &JobFile) -> optimizers::Settings {
    let train = &job.train;
    optimizers::Settings {
        weight_decay: train.weight_decay,
        adam_beta1: train.adam_beta1,
        adam_beta2: train.adam_beta2,
        adam_epsilon: train.adam_epsilon,
    }
}

fn state_settings(job: &JobFile) -> StateSettings {
    let train = &job.train;
    StateSettings {
        seed: train.seed,
        rows_per_core: train.per_device_train_batch_size as usize,
        max_grad_norm: if train.max_grad_norm > 0.0 { train.max_grad_norm } else { f64::INFINITY },
        shard_optimizer_state: job.parallel.shard_optimizer_state,
        accumulates: train.gradient_accumulation_steps > 1 || train.fp16,
        fp16: train.fp16,
    }
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
