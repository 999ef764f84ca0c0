//! The cores with the model on them: compiles the programs of the run in the order of their first use,
//! and launches them.
//!
//! Imports `step` and `state`.

mod builder;
mod cached_batch;
mod compilers;
mod cores;
mod costs;
mod device;
mod evaluated;
mod flops;
mod launch;
mod observer;
mod passes;
mod pipeline;
pub mod priority;
mod program_queue;
mod results;
mod start;
#[cfg(test)]
mod tests;
mod trained;
mod upload;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use traind_loader::BatchAxis;
use traind_models::optimizers::Optimizers;
use traind_models::weights::ArrayParts;
use traind_models::{Lengths, Model};
use traind_xla::mesh::{Axis, Coordinates};
use traind_xla::runtime::{CoreInputs, ExecutableSource, HostArray, LazyDevice};

use crate::error::Result;
use crate::state::{HeldSlot, HostBytes, ParameterState, ScaleValues, StartValues, TrainState};
use crate::step::{BatchLayout, JobPrograms, Program, ProgramShape};

pub use compilers::{MustStop, end_compilers, give_up_on};
pub use cores::{client_options, cores_of, cores_to_compile_for, open_plugin};
pub use flops::{Precision, peak as peak_flops, trainer_flos};
pub use launch::EvaluationLaunch;
pub use launch::Launch;
pub use observer::{
    CompiledReport, CoreEnded, LaunchReport, MemoryUsage, Observer, PipelineTime,
    ProgramDescription, ProgramMemory, Work,
};
pub use results::{LossScaleResult, StepResults};
pub(crate) use trained::StepSums;
pub use trained::TrainedValues;
pub use upload::{UploadedBatch, Uploader};

use builder::ProgramBuilder;
use costs::ProgramCosts;
pub use device::{CompiledProgram, ProgramCompiler, ProgramDevice};
use program_queue::ProgramQueue;

/// The cores of this host, and the programs that are compiled for them.
pub struct Session<D: ProgramDevice = LazyDevice> {
    /// The cores of each pipeline stage of this host; one where there is no pipeline.
    devices: Vec<D>,
    /// The programs that can be launched, and the state that they work on.
    pub programs: Arc<JobPrograms>,
    queue: ProgramQueue<D::Compiler>,
    costs: HashMap<String, ProgramCosts>,
    compile_wait: Duration,
    /// The saved parameters as they are trained, while the cores have others for an evaluation.
    trained: Option<ArrayParts>,
    observer: Arc<dyn Observer>,
}

impl<D: ProgramDevice> Session<D> {
    /// A session of devices that each have the variables of a stage of `programs`.
    pub fn new(devices: Vec<D>, programs: JobPrograms, observer: Arc<dyn Observer>) -> Session<D> {
        let programs = Arc::new(programs);
        let builder = ProgramBuilder {
            compilers: devices.iter().map(D::compiler).collect(),
            programs: Arc::clone(&programs),
            observer: Arc::clone(&observer),
        };
        let queue = ProgramQueue::new(builder);
        let (costs, compile_wait) = (HashMap::new(), Duration::ZERO);
        let trained = None;
        let session = Session { devices, programs, queue, costs, compile_wait, trained, observer };
        session.report_memory();
        session
    }

    /// Starts to compile `shapes`, which are in the order of their first use. Calls `when_done` when
    /// all are compiled.
    pub fn prepare(
        &mut self,
        shapes: &[ProgramShape],
        when_done: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let mut distinct: Vec<ProgramShape> = Vec::new();
        for shape in shapes.iter().flat_map(|shape| self.programs.parts_of(*shape)) {
            if !distinct.contains(&shape) {
                distinct.push(shape);
            }
        }
        let threads = self.devices.iter().map(D::compile_threads).max().unwrap_or(1);
        self.queue.start(distinct, threads, Box::new(when_done))
    }

    /// Gives up compiles that a stopped run waits for, where compilers are processes of their own.
    pub fn end_compilers_on(&mut self, must_stop: MustStop) -> Result<()> {
        self.queue.end_compilers_on(must_stop)
    }

    /// Compiles `shapes` without running them. Returns the sources of the executables.
    pub fn compile_all(&mut self, shapes: &[ProgramShape]) -> Result<Vec<ExecutableSource>> {
        if shapes.is_empty() {
            return Ok(Vec::new());
        }
        let (done, ended) = sync_channel(1);
        self.prepare(shapes, move || {
            let _ = done.send(());
            Ok(())
        })?;
        // The sender is dropped where a thread ends early, and the queue has the reason.
        let _ = ended.recv();
        Ok(self.queue.compiled()?.into_iter().map(|(_, program)| program.source).collect())
    }

    fn device_of(&mut self, shape: &ProgramShape) -> &mut D {
        let stage = self.programs.stage_of(shape);
        &mut self.devices[stage - self.programs.stages.start]
    }

    /// Installs the programs compiled since the last launch. Fails if one could not be compiled.
    fn install_compiled(&mut self) -> Result<()> {
        let compiled = self.queue.compiled()?;
        if compiled.is_empty() {
            return Ok(());
        }
        compiled.into_iter().for_each(|(shape, compiled)| self.install(&shape, compiled));
        self.report_memory();
        Ok(())
    }

    fn install(&mut self, shape: &ProgramShape, compiled: CompiledProgram<StepOf<D>>) {
        let sizes = &shape.sizes;
        let positions = sizes.get(BatchAxis::Positions);
        let pass = &self.programs.train.forward;
        let rows = sizes.rows() * pass.layout.sequences();
        let chunks = self.programs.pipeline.chunks.count() as f64;
        let computed = match sizes.get(BatchAxis::PackedPositions) {
            0 => 1.0,
            packed => packed as f64 / positions.max(1) as f64,
        };
        // Predicted tokens are as many, whether layers compute padding or not.
        let predicted = sizes.get(BatchAxis::PredictedPositions) as f64 / computed;
        let lengths = Lengths {
            positions,
            target_positions: sizes.get(BatchAxis::TargetPositions),
            predicted_positions: predicted.round() as usize,
        };
        let forward = computed * pass.model.forward_flops(rows, lengths) / chunks;
        let of_reference = if pass.reference.is_some() { forward } else { 0.0 };
        let costs = ProgramCosts::of(&compiled, shape.program, forward, of_reference);
        self.costs.insert(shape.key(), costs);
        self.device_of(shape).install(&shape.key(), compiled.step);
    }

    fn wait_for(&mut self, shape: ProgramShape) -> Result<()> {
        let start = Instant::now();
        self.observer.compile_wait(&mut || self.queue.complete(shape));
        self.compile_wait += start.elapsed();
        self.install_compiled()
    }

    /// The time that launches have waited for their programs.
    pub fn compile_wait(&self) -> Duration {
        self.compile_wait
    }

    fn report_memory(&self) {
        self.observer.memory_changed(self.memory());
    }

    /// The memory that the run uses on each core of the fullest stage of this host, by the programs compiled so far.
    fn memory(&self) -> MemoryUsage {
        let stages = (0..self.devices.len()).map(|place| self.stage_memory(place));
        let bytes = |memory: &MemoryUsage| memory.parameters_bytes + memory.optimizer_bytes;
        stages.max_by_key(bytes).unwrap_or_default()
    }

    fn stage_memory(&self, place: usize) -> MemoryUsage {
        let recorder = self.queue.recorder(place);
        let state = self.programs.states[place].bytes(recorder);
        let parameters_bytes = state.parameters;
        let costs = self.costs.values();
        // Caches of generation exist one at a time, while nothing trains.
        let generate = self.programs.generate.as_ref();
        let caches_bytes = generate.map_or(0, |step| step.cache_bytes(recorder));
        let variables = recorder.variable_bytes() as u64 - state.offloaded - caches_bytes;
        let optimizer_bytes = variables - parameters_bytes + state.loaded;
        MemoryUsage {
            parameters_bytes,
            optimizer_bytes,
            temporary_bytes: costs.clone().map(|costs| costs.temporary_bytes).max().unwrap_or(0),
            code_bytes: costs.map(|costs| costs.code_bytes).sum(),
        }
    }

    /// Launches the program, which may still run on return. Waits until it is compiled.
    fn launch(&mut self, shape: ProgramShape, inputs: &CoreInputs) -> Result<D::Launched> {
        let work = self.ready(shape)?;
        self.observer.launched(work);
        if shape.program.ends_step() {
            self.queue.step_launched();
        }
        let (key, start) = (shape.key(), Instant::now());
        let launched = self.device_of(&shape).launch(&key, inputs)?;
        if let Some(ended) = self.observer.program_launched(&LaunchReport { program: &key, start })
        {
            self.device_of(&shape).watch(&launched, &ended)?;
        }
        Ok(launched)
    }

    /// Waits until a program is installed; returns its work.
    fn ready(&mut self, shape: ProgramShape) -> Result<Work> {
        self.install_compiled()?;
        let key = shape.key();
        if !self.device_of(&shape).is_prepared(&key) {
            self.wait_for(shape)?;
        }
        Ok(self.costs.get(&key).map(|costs| costs.work).unwrap_or_default())
    }
}

/// A compiled program of a device.
type StepOf<D> = <<D as ProgramDevice>::Compiler as ProgramCompiler>::Step;

impl Session {
    /// The memory of a core in bytes, if known.
    pub fn core_memory_bytes(&self) -> Option<u64> {
        cores::memory_bytes(self.devices[0].cores())
    }

    /// The peak FLOP/s of a core, if the device is a known one.
    pub fn peak_flops(&self, precision: Precision) -> Option<f64> {
        flops::peak(self.devices[0].cores().device(0).kind(), precision)
    }

    /// The parameter elements for [`trainer_flos`].
    pub fn trainer_elements(&self) -> usize {
        flops::trainer_elements(self.programs.train.forward.model.parameters())
    }

    /// The optimizers that updates make use of.
    pub fn optimizers(&self) -> &Arc<Optimizers> {
        &self.programs.train.optimizers
    }

    /// Steps that may be launched and not yet read back. With one ahead a device stays busy while
    /// the host reads back; a CPU client blocks the second launch until the first program ends.
    pub fn steps_in_flight_max(&self) -> usize {
        // The host adds up sums before the update.
        if self.is_on_cpus() || self.programs.updates_in_parts() { 1 } else { 2 }
    }

    fn is_on_cpus(&self) -> bool {
        self.devices[0].cores().client().platform_name() == "cpu"
    }

    /// Uploads batches to train on.
    pub fn train_uploader(&self) -> Uploader {
        let layout = &self.programs.train.forward.layout;
        self.uploader(Program::Accumulate, layout).in_parts(self.programs.gradient_cache())
    }

    /// Uploads batches for `program`, which evaluates or predicts.
    pub fn eval_uploader(&self, program: Program) -> Uploader {
        self.uploader(program, &self.programs.eval_step(program).forward.layout)
    }

    fn uploader(&self, program: Program, layout: &BatchLayout) -> Uploader {
        let cores = self.devices.iter().map(|device| device.cores().clone());
        Uploader::new(cores.collect(), layout, self.programs.pipeline_of(program))
    }

    /// Launches the programs for a training batch, which may still run on return.
    pub fn launch_batch(&mut self, batch: &UploadedBatch) -> Result<Launch> {
        let start = Instant::now();
        let programs = match self.programs.pipeline.is_divided() {
            true => self.pass_training_batch(batch)?,
            false if self.programs.gradient_cache().is_some() => self.pass_cached_batch(batch)?,
            false => {
                let program = self.programs.step_programs().batch_program();
                vec![self.launch(batch.shape(program), batch.whole())?]
            }
        };
        Ok(Launch::new(programs, start.elapsed()))
    }

    /// Launches the update that ends a step of several batches.
    pub fn launch_update(&mut self, scalars: &HostArray) -> Result<Launch> {
        let start = Instant::now();
        let programs = match self.programs.updates_in_parts() {
            true => self.update_stages(scalars)?,
            false => {
                let inputs = upload::replicate(self.devices[0].cores(), &[scalars])?;
                vec![self.launch(ProgramShape::update(), &inputs)?]
            }
        };
        Ok(Launch::new(programs, start.elapsed()))
    }

    /// Launches the programs that evaluate a batch, which may still run on return. On CPUs they have ended: two batches
    /// in flight would take the memory of both and end no sooner.
    pub fn launch_evaluation(
        &mut self,
        program: Program,
        batch: &UploadedBatch,
    ) -> Result<EvaluationLaunch> {
        let programs = match self.programs.pipeline.is_divided() {
            true => self.pass_evaluated_batch(program, batch)?,
            false => Some(vec![self.launch(batch.shape(program), batch.whole())?]),
        };
        let cores = self.devices[0].cores();
        let shards = 0..cores.mesh().size(Axis::Data);
        let first = shards.map(|shard| cores.core_at(Coordinates::of_data_shard(shard)));
        let cores = first.collect::<Result<_, _>>()?;
        let observer = Arc::clone(&self.observer);
        let launch = EvaluationLaunch { programs, cores, observer };
        if self.is_on_cpus() {
            launch.wait()?;
        }
        Ok(launch)
    }

    /// Puts the values that training starts from on the cores. Fails before it changes anything where they are not
    /// those of the model and of its optimizers.
    pub fn start(&mut self, start: &StartValues) -> Result<()> {
        self.check_start(start)?;
        let mut stages = self.programs.states.iter().zip(&mut self.devices);
        stages.try_for_each(|(state, device)| state.start(device, start))
    }

    fn model(&self) -> &Model {
        self.programs.train.forward.model.as_ref()
    }

    /// Whether hosts hold different parts of the state, so that all of them save it together. The same on all hosts.
    pub fn is_over_hosts(&self) -> bool {
        let has_far_stages = self.programs.stages.len() < self.programs.pipeline.stages;
        has_far_stages || self.programs.states.iter().any(TrainState::is_over_hosts)
    }

    /// The places of the parameters that are saved: with adapters, of those that are trained.
    fn saved(&self) -> impl Iterator<Item = usize> {
        let model = self.model();
        let specs = model.parameters().iter().enumerate();
        specs.filter(|(_, spec)| model.adapters().saves(spec)).map(|(place, _)| place)
    }

    /// A parameter on the stage that updates it, and that stage's device, if it is on this host.
    fn owned(&self, place: usize) -> Option<(&ParameterState, &LazyDevice)> {
        let stage = self.programs.pipeline.owner(&self.model().parameters()[place]);
        let own = self.programs.own_place(stage)?;
        Some((self.programs.states[own].parameter(place)?, &self.devices[own]))
    }

    /// Copies to the host what this host holds of the parameters that are saved.
    fn values(&self) -> Result<ArrayParts> {
        let owned: Vec<_> = self.saved().filter_map(|place| self.owned(place)).collect();
        let value = |(parameter, device): (&ParameterState, &LazyDevice)| {
            Ok((parameter.name().to_owned(), parameter.value(device)?))
        };
        owned.into_par_iter().map(value).collect()
    }

    /// Returns the parts of `parts` that this host saves. One of several hosts saves what all of them hold.
    fn saved_here(&self, mut parts: ArrayParts) -> ArrayParts {
        for (parameter, _) in self.saved().filter_map(|place| self.owned(place)) {
            if !parameter.is_saved_here() {
                parts.remove(parameter.name());
            }
        }
        parts
    }

    fn slots_where(&self, wanted: impl Fn(&HeldSlot) -> bool + Sync) -> Result<ArrayParts> {
        let mut slots = ArrayParts::new();
        for (state, device) in self.programs.states.iter().zip(&self.devices) {
            slots.extend(state.slots(device, &wanted)?);
        }
        Ok(slots)
    }

    /// The loss scale of `fp16`, which is the same on all stages.
    pub fn loss_scale(&self) -> Result<Option<ScaleValues>> {
        let scale = self.programs.states[0].loss_scale.as_ref();
        scale.map(|scale| scale.values(&self.devices[0])).transpose()
    }

    /// The sizes of all parameters. Stages of other hosts count as much as those of this one.
    pub fn host_bytes(&self) -> HostBytes {
        let hosts = (self.programs.pipeline.stages / self.programs.stages.len()) as u64;
        let stages = self.programs.states.iter().map(TrainState::host_bytes);
        stages.fold(HostBytes::default(), |sum, HostBytes { parameters, slots }| HostBytes {
            parameters: sum.parameters + hosts * parameters,
            slots: sum.slots + hosts * slots,
        })
    }

    /// Replaces the parameters that are saved for evaluation. The optimizer's slots are not replaced, so training must
    /// not continue.
    pub fn set_saved_parameters(&mut self, arrays: &[HostArray]) -> Result<()> {
        let places: Vec<usize> = self.saved().collect();
        for (state, device) in self.programs.states.iter().zip(&mut self.devices) {
            for (place, array) in places.iter().zip(arrays) {
                if let Some(parameter) = state.parameter(*place) {
                    parameter.set(device, array)?;
                }
            }
        }
        Ok(())
    }

    /// Replaces the parts of saved parameters that this host holds.
    fn set_held_parameters(&mut self, parts: &ArrayParts) -> Result<()> {
        let states = Arc::clone(&self.programs);
        for (state, device) in states.states.iter().zip(&mut self.devices) {
            for parameter in state.parameters() {
                if let Some(part) = parts.get(parameter.name()) {
                    parameter.set_part(device, part)?;
                }
            }
        }
        Ok(())
    }
}
