//! Everything that comes before the first step: the data read, the model built and put on the
//! cores, every program compiled.

use std::sync::Arc;
use std::time::Instant;

use traind_cache::CacheFolders;
use traind_job_file::JobFile;
use traind_loader::{
    Buckets, Collator, Masking, Padding, PaddingSide, Sampler, TextTokenizer, TokenizedSet,
    panic_message,
};
use traind_xla::mesh::Mesh;
use traind_xla::runtime::{ExecutableCache, LazyDevice, LocalCores};

use super::settings;
use crate::checkpoint::{self, Recipe, Resumed};
use crate::control::Context;
use crate::data::{self, Splits, lengths};
use crate::error::{RunError, RunResult};
use crate::evaluation::{Batching, Evaluator};
use crate::model::{ModelFolder, OpenModel};
use crate::progress::{BestRule, Timetable};
use crate::session::{Program, ProgramShape, Session, Steps, open_cores};
use crate::state::{self, StartValues, TrainState};
use crate::step::{EvalStep, TrainStep};
use crate::tasks;

/// Steps that a padded length must serve on average: each costs a program to compile, and saves
/// padding in every step.
const STEPS_PER_LENGTH: u64 = 25;

/// Everything that is ready before the first step.
pub(crate) struct Prepared {
    pub resumed: Option<Resumed>,
    pub recipe: Recipe,
    pub train_rows: u64,
    pub collator: Collator,
    pub open: OpenModel,
    pub session: Session,
    pub sampler: Sampler,
    pub timetable: Timetable,
    pub validation: Option<Evaluator>,
    pub test: Option<Evaluator>,
}

pub(crate) fn prepare(context: &Context) -> RunResult<Prepared> {
    let mesh = state::mesh(&context.spec.job)?;
    // The plugin is a large library: it loads while the data are read.
    std::thread::scope(|scope| {
        let cores = scope.spawn(|| open_cores(context, mesh.clone()));
        let inputs = prepare_inputs(context, mesh.clone())?;
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
    padding: RowPadding,
    mesh: Mesh,
}

fn prepare_inputs(context: &Context, mesh: Mesh) -> RunResult<Inputs> {
    let job = &context.spec.job;
    let resumed = checkpoint::find(context)?;
    let folder = ModelFolder::open(&job.model, context)?;
    let positions = folder.positions(&job.model)?;
    lengths::check_lengths(job, positions)?;
    let task = tasks::of_job(job, &folder.config)?;
    let limit = lengths::length_limit(job, task.as_ref(), positions);
    let tokenizer = folder.tokenizer(job.data.max_length, limit)?;
    let max_length = tokenizer.max_length().unwrap_or(limit).min(limit);
    let splits = data::prepare(context, task.as_ref(), &tokenizer, max_length)?;
    let padding = RowPadding {
        padding: lengths::padding(job, &tokenizer, folder.pad_token_id(&tokenizer)?),
        masking: task.masking(&tokenizer)?,
    };
    let buckets = lengths::buckets(job, task.as_ref(), max_length, positions)?;
    let open = folder.build(&job.model, task, splits.encoder.as_ref(), &tokenizer)?;
    let lengths = splits.planned()?.set.lengths();
    let sampler = settings::sampler(job, &mesh);
    let sampler = Sampler::new(sampler, lengths, buckets.clone())?;
    let timetable = Timetable::new(&job.train, sampler.batches_per_epoch() as u64)?;
    let lengths_max = (timetable.max_steps / STEPS_PER_LENGTH).clamp(6, 12) as usize;
    let sampler = lengths::fitted(job, sampler, lengths_max)?;
    let recipe = Recipe::of(job, splits.planned()?.set.len() as u64);
    Ok(Inputs { resumed, recipe, splits, open, sampler, timetable, buckets, padding, mesh })
}

/// Keeps the cache within its size, now that the run holds or has read what it needs of it.
fn evict(context: &Context) -> RunResult<()> {
    let Some(bytes_max) = context.spec.cache_bytes_max else { return Ok(()) };
    let cache_dir = &context.spec.cache_dir;
    let folders = CacheFolders {
        of_folders: ["hub", "objects", "tokens"].map(|name| cache_dir.join(name)).to_vec(),
        of_files: vec![cache_dir.join("executables")],
    };
    match traind_cache::evict(&folders, bytes_max) {
        Ok(0) => {}
        Ok(bytes) => {
            let (mib, folder) = (bytes.div_ceil(1 << 20), cache_dir.display());
            let message = format!("removed {mib} MiB of {folder} that no job used for long");
            context.journal.info(message)?;
        }
        Err(error) => {
            context.journal.warn("CACHE_NOT_CLEANED", error.to_string())?;
        }
    }
    Ok(())
}

/// What the collator does to rows.
struct RowPadding {
    padding: Padding,
    masking: Option<Masking>,
}

impl RowPadding {
    fn collator(&self, set: &Arc<TokenizedSet>) -> Collator {
        let collator = Collator::new(Arc::clone(set), self.padding);
        match &self.masking {
            Some(masking) => collator.with_masking(masking.clone()),
            None => collator,
        }
    }

    /// Whether a row's result depends on the rows beside it: on how far they make it padded.
    fn places_rows_by_batch(&self) -> bool {
        self.padding.side == PaddingSide::Left || self.padding.is_attended
    }
}

impl Inputs {
    /// Puts the model on the cores and compiles every program of the run.
    fn compile(self, context: &Context, cores: LocalCores) -> RunResult<Prepared> {
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
        evict(context)?;
        context.activity.holds(session.memory());
        context.activity.can_do(session.peak(settings::precision(&job.train)).unwrap_or_default());
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
            data_shards: self.mesh.data_shards(),
            in_order: task.loss_counts_padding() || self.padding.places_rows_by_batch(),
        };
        let labels = task.labels(self.open.model.config())?;
        let collator = self.padding.collator(&split.set);
        Evaluator::new(&context.spec.job, split, task, labels, batching, collator).map(Some)
    }

    fn session(&self, context: &Context, cores: LocalCores) -> RunResult<Session> {
        let job = &context.spec.job;
        let model = &self.open.model;
        let optimizer = settings::optimizer(job)?;
        let forward = settings::forward_pass(job, &self.open)?;
        let train = TrainStep {
            forward: forward.clone(),
            optimizer: Arc::clone(&optimizer),
            mesh: self.mesh.clone(),
            loss_divisor: job.total_train_batch_size().next_power_of_two() as f64,
        };
        let evaluate = EvalStep { forward, readout: self.open.task.readout() };
        let start = self.start_values(context)?;
        let cache = ExecutableCache::open(&context.spec.cache_dir.join("executables"))?;
        let settings = settings::state(job);
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
