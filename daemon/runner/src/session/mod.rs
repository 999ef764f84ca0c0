//! The cores with the model on them: compiles every program of the run before its first step, and
//! launches programs.
//!
//! Imports `step`, `state`, `control` and `error`.

mod programs;

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;
use traind_loader::HostBatch;
use traind_pjrt::{Client, CreateOptions, Plugin};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{CompileSource, Compiled, MemoryUsage, Phase};
use traind_xla::mesh::Mesh;
use traind_xla::runtime::{
    CompiledStep, CoreInputs, ExecutableSource, HostArray, LazyDevice, LocalCores, Pending,
};

use crate::control::Context;
use crate::control::work::{self, Precision, Work};
use crate::error::{RunError, RunResult};
use crate::progress::Timetable;
use crate::state::TrainState;
use crate::step::{BatchLayout, EvalStep, TrainStep};

pub(crate) use programs::{Program, ProgramShape};

use programs::ProgramFigures;

/// A batch whose inputs are on the cores, with its plan.
#[derive(Debug)]
pub(crate) struct UploadedBatch {
    pub host: HostBatch,
    pub inputs: CoreInputs,
}

/// How the step of one batch differs from that of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steps {
    OneProgram,
    Accumulated,
}

pub(crate) struct Session {
    pub device: LazyDevice,
    pub state: TrainState,
    train: TrainStep,
    evaluate: EvalStep,
    predict: EvalStep,
    figures: HashMap<String, ProgramFigures>,
}

/// Opens the plugin and as many of its devices as the job has cores, which form `mesh`.
pub(crate) fn open_cores(context: &Context, mesh: Mesh) -> RunResult<LocalCores> {
    let spec = &context.spec;
    let plugin = Plugin::load(&spec.plugin)?;
    let count = spec.cores.len();
    let platform = spec.job.resources.platform.to_string();
    Ok(LocalCores::of_host(Client::new(plugin, &client_options(&platform, count))?, mesh)?)
}

/// The daemon lets the process see its own devices alone, so they count from 0 here,
/// whatever their numbers on the host are.
fn client_options(platform: &str, count: usize) -> CreateOptions {
    match platform {
        "cpu" => CreateOptions::new().with("cpu_device_count", count as i64),
        "cuda" => {
            let visible: Vec<i64> = (0..count as i64).collect();
            CreateOptions::new().with("visible_devices", visible)
        }
        // The Neuron runtime is told by its environment.
        _ => CreateOptions::new(),
    }
}

impl Session {
    pub(crate) fn new(
        mut device: LazyDevice,
        train: TrainStep,
        evaluate: EvalStep,
        state: impl FnOnce(&mut LazyDevice) -> RunResult<TrainState>,
    ) -> RunResult<Session> {
        let state = state(&mut device)?;
        let predict = evaluate.unlabelled();
        Ok(Session { device, state, train, evaluate, predict, figures: HashMap::new() })
    }

    /// Steps that may be handed over and not yet read back. One ahead keeps a device busy while
    /// the host reads back; a CPU client would have the second step's call wait for the first.
    pub(crate) fn steps_in_flight_max(&self) -> usize {
        if self.device.cores().client().platform_name() == "cpu" { 1 } else { 2 }
    }

    /// Compiles programs before they are needed, as many at a time as the host has processors.
    pub(crate) fn prepare(&mut self, context: &Context, wanted: &[ProgramShape]) -> RunResult<()> {
        let mut new: Vec<ProgramShape> = Vec::new();
        for shape in wanted {
            if !self.has(shape) && !new.contains(shape) {
                new.push(*shape);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        context.activity.enter(Phase::Compile);
        let compile = |shape: &ProgramShape| self.compile(context, *shape, true);
        let compiled =
            new.par_iter().with_max_len(1).map(compile).collect::<RunResult<Vec<_>>>()?;
        new.iter().zip(compiled).for_each(|(shape, step)| self.install(shape, step));
        Ok(())
    }

    fn has(&self, shape: &ProgramShape) -> bool {
        self.device.is_prepared(&shape.key())
    }

    /// `ahead`: before the first step.
    fn compile(
        &self,
        context: &Context,
        shape: ProgramShape,
        ahead: bool,
    ) -> RunResult<CompiledStep> {
        let step = self.record(shape)?;
        keep_program_text(context, &shape.key(), &step.program);
        context.journal.record(Kind::Compiled(Compiled {
            program: shape.program.name().to_owned(),
            bucket_length: shape.positions as u32,
            batch: shape.rows as u32,
            seconds: step.trace_seconds + step.compile.seconds,
            source: compile_source(step.compile.source).into(),
            ahead,
        }))?;
        Ok(step)
    }

    fn record(&self, shape: ProgramShape) -> RunResult<CompiledStep> {
        let ProgramShape { program, rows, positions } = shape;
        let (device, train, state) = (&self.device, &self.train, &self.state);
        match program {
            Program::Train => {
                device.compile(&train.inputs(rows, positions), |at| train.record(at, state))
            }
            Program::Accumulate => {
                let inputs = train.accumulate_inputs(rows, positions);
                device.compile(&inputs, |at| train.record_accumulate(at, state))
            }
            Program::Update => {
                device.compile(&train.update_inputs(), |at| train.record_update(at, state))
            }
            Program::Evaluate | Program::Predict => {
                let evaluate = self.eval_step(program);
                device.compile(&evaluate.inputs(rows, positions), |at| evaluate.record(at, state))
            }
        }
    }

    fn install(&mut self, shape: &ProgramShape, step: CompiledStep) {
        let ProgramShape { program, rows, positions } = *shape;
        let forward = self.train.forward.model.forward_flops(rows, positions);
        let trains = matches!(program, Program::Train | Program::Accumulate);
        let figures = ProgramFigures::of(step.executable(), forward, trains);
        self.figures.insert(shape.key(), figures);
        self.device.install(&shape.key(), step);
    }

    fn work(&self, key: &str) -> Work {
        self.figures.get(key).map(|figures| figures.work).unwrap_or_default()
    }

    /// What the run holds on each core.
    pub(crate) fn memory(&self) -> MemoryUsage {
        let (parameters_bytes, _) = self.state.host_bytes();
        let figures = self.figures.values();
        MemoryUsage {
            parameters_bytes,
            optimizer_bytes: self.device.variable_bytes() as u64 - parameters_bytes,
            temporary_bytes: figures.clone().map(|of| of.temporary_bytes).max().unwrap_or(0),
            code_bytes: figures.map(|of| of.code_bytes).sum(),
        }
    }

    /// Operations of a step by the Trainer's count.
    pub(crate) fn trainer_flos(&self, batch: &HostBatch) -> f64 {
        let padded_length = batch.cores.first().map_or(0, |batch| batch.padded_length);
        let positions = (batch.scheduled.plan.rows.len() * padded_length) as f64;
        work::trainer_flos(self.train.forward.model.parameters(), positions)
    }

    /// Operations a second that a core can do at most, if its device is a known one.
    pub(crate) fn peak(&self, precision: Precision) -> Option<f64> {
        work::peak(self.device.cores().device(0).kind(), precision)
    }

    /// Memory of a core, where its device tells; cores of a CPU have that of the machine.
    pub(crate) fn memory_of_a_core(&self) -> Option<u64> {
        let stats = self.device.cores().device(0).memory_stats().ok().flatten();
        let told = stats.and_then(|stats| u64::try_from(stats.bytes_limit?).ok());
        told.or_else(|| work::host_memory().filter(|_| self.is_cpu()))
    }

    fn is_cpu(&self) -> bool {
        self.device.cores().device(0).kind().eq_ignore_ascii_case("cpu")
    }

    /// Hands one batch over to the cores, which may still run when it returns.
    pub(crate) fn run(
        &mut self,
        context: &Context,
        program: Program,
        batch: &UploadedBatch,
    ) -> RunResult<Pending> {
        let plan = &batch.host.scheduled.plan;
        let (rows, positions) = (plan.batch_per_core, plan.length as usize);
        self.launch(context, ProgramShape { program, rows, positions }, &batch.inputs)
    }

    fn launch(
        &mut self,
        context: &Context,
        shape: ProgramShape,
        inputs: &CoreInputs,
    ) -> RunResult<Pending> {
        if !self.has(&shape) {
            context.activity.enter(Phase::Compile);
            let step = self.compile(context, shape, false)?;
            self.install(&shape, step);
        }
        let key = shape.key();
        context.activity.dispatched(self.work(&key));
        Ok(self.device.mark_step(&key, inputs)?)
    }

    /// Whether a step takes one program.
    pub(crate) fn steps(&self) -> Steps {
        if self.state.accumulation.is_some() { Steps::Accumulated } else { Steps::OneProgram }
    }

    /// Uploads training batches, with what changes from one to the next. Runs on
    /// the loader's thread.
    pub(crate) fn train_upload(
        &self,
        timetable: Timetable,
    ) -> impl FnMut(HostBatch) -> RunResult<UploadedBatch> + Send + 'static {
        let (cores, layout) = (self.device.cores().clone(), self.train.forward.layout.clone());
        let optimizer = Arc::clone(&self.train.optimizer);
        let steps = self.steps();
        move |host: HostBatch| {
            let scheduled = &host.scheduled;
            let place = timetable.place(scheduled.batch);
            let number = HostArray::from_u32(&[], &[place.step as u32])?;
            let of_step = match steps {
                Steps::OneProgram => {
                    let rate = timetable.learning_rate(place.step);
                    let scalars = optimizer.scalars(place.step + 1, rate);
                    [HostArray::from_f32(&[scalars.len()], &scalars)?, number]
                }
                Steps::Accumulated => {
                    let rows = (scheduled.plan.batch_per_core * scheduled.plan.cores) as u64;
                    let first_row = (place.batch * rows) as u32;
                    [number, HostArray::from_u32(&[], &[first_row])?]
                }
            };
            upload(&cores, &layout, host, &of_step)
        }
    }

    /// Ends a step of several batches. `number` counts updates from 1.
    pub(crate) fn update(
        &mut self,
        context: &Context,
        number: u64,
        learning_rate: f64,
    ) -> RunResult<Pending> {
        let scalars = self.train.optimizer.scalars(number, learning_rate);
        let scalars = HostArray::from_f32(&[scalars.len()], &scalars)?;
        let cores = self.device.cores();
        let upload = |core| Ok::<_, RunError>(vec![cores.upload(core, &scalars)?]);
        let inputs: CoreInputs = (0..cores.len()).map(upload).collect::<Result<_, _>>()?;
        self.launch(context, ProgramShape::UPDATE, &inputs)
    }

    /// Uploads the batches of an evaluation step.
    pub(crate) fn eval_upload(
        &self,
        program: Program,
    ) -> impl FnMut(HostBatch) -> RunResult<UploadedBatch> + Send + use<> {
        let (cores, layout) =
            (self.device.cores().clone(), self.eval_step(program).forward.layout.clone());
        move |host: HostBatch| upload(&cores, &layout, host, &[])
    }

    fn eval_step(&self, program: Program) -> &EvalStep {
        if program == Program::Predict { &self.predict } else { &self.evaluate }
    }

    /// The parameters as they are now, on the host, in the model's order.
    pub(crate) fn parameters(&self) -> RunResult<Vec<HostArray>> {
        let parameters = self.state.parameters().iter();
        parameters.map(|parameter| parameter.value(&self.device)).collect()
    }

    /// Replaces the parameters, with which no more training is to be done.
    pub(crate) fn set_parameters(&mut self, arrays: &[HostArray]) -> RunResult<()> {
        let variables = self.state.parameters().iter().map(|parameter| parameter.variable());
        Ok(variables.zip(arrays).try_for_each(|(at, array)| self.device.set(at, array))?)
    }
}

/// Uploads to each core the rows of its data shard, followed by what is the same on all cores.
fn upload(
    cores: &LocalCores,
    layout: &BatchLayout,
    host: HostBatch,
    of_step: &[HostArray],
) -> RunResult<UploadedBatch> {
    let shards: Vec<Vec<HostArray>> =
        host.cores.iter().map(|batch| layout.arrays(batch)).collect::<Result<_, _>>()?;
    let mut inputs = Vec::with_capacity(cores.len());
    for (core, at) in cores.coordinates().enumerate() {
        let buffers = shards[at.data].iter().chain(of_step).map(|array| cores.upload(core, array));
        inputs.push(buffers.collect::<Result<_, _>>()?);
    }
    Ok(UploadedBatch { host, inputs })
}

fn compile_source(source: ExecutableSource) -> CompileSource {
    match source {
        ExecutableSource::Memory => CompileSource::Memory,
        ExecutableSource::Disk => CompileSource::Disk,
        ExecutableSource::Compiled => CompileSource::Compiled,
    }
}

/// Keeps the lowered program in the run directory, for those who debug one.
/// Nothing depends on it, so a failure to write it is no failure of the run.
fn keep_program_text(context: &Context, key: &str, program: &str) {
    let folder = context.run_dir.join("programs");
    let _ = std::fs::create_dir_all(&folder);
    let _ = std::fs::write(folder.join(format!("{key}.mlir")), program);
}
