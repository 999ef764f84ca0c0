//! The cores with the model on them: compiles the programs of the run in the order of their first use,
//! and launches them.
//!
//! Imports `step`, `state`, `control` and `error`.

mod builder;
mod cores;
mod costs;
mod device;
mod flops;
mod passes;
mod priority;
mod program_files;
mod program_queue;
#[cfg(test)]
mod tests;
mod upload;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use traind_job_file::Train;
use traind_loader::BatchAxis;
use traind_models::Lengths;
use traind_models::optimizers::Optimizer;
use traind_proto::v1::{MemoryUsage, Phase};
use traind_xla::runtime::{CoreInputs, HostArray, LazyDevice, Pending};

use crate::control::Reporter;
use crate::error::RunResult;
use crate::state::ParameterState;
use crate::step::{JobPrograms, Program, ProgramShape};

pub(crate) use cores::{open_cores, open_plugin};
pub(crate) use flops::{peak as peak_flops, trainer_flos};
pub(crate) use upload::{UploadedBatch, Uploader};

use builder::ProgramBuilder;
use costs::ProgramCosts;
use device::{CompiledProgram, ProgramCompiler, ProgramDevice};
use program_files::ProgramFiles;
use program_queue::ProgramQueue;

pub(crate) struct Session<D: ProgramDevice = LazyDevice> {
    pub device: D,
    pub programs: Arc<JobPrograms>,
    queue: ProgramQueue<D::Compiler>,
    costs: HashMap<String, ProgramCosts>,
    compile_wait: Duration,
    reporter: Reporter,
}

impl<D: ProgramDevice> Session<D> {
    /// A session of a device that has the variables of `programs`.
    pub(crate) fn new(
        device: D,
        programs: JobPrograms,
        reporter: Reporter,
        run_dir: &Path,
    ) -> Session<D> {
        let programs = Arc::new(programs);
        let builder = ProgramBuilder {
            compiler: device.compiler(),
            programs: Arc::clone(&programs),
            reporter: reporter.clone(),
            files: ProgramFiles::new(run_dir),
        };
        let queue = ProgramQueue::new(builder);
        let (costs, compile_wait) = (HashMap::new(), Duration::ZERO);
        let session = Session { device, programs, queue, costs, compile_wait, reporter };
        session.report_memory();
        session
    }

    /// Starts to compile `shapes`, which are in the order of their first use. Calls `when_done` when
    /// all are compiled.
    pub(crate) fn prepare(
        &mut self,
        shapes: &[ProgramShape],
        when_done: impl FnOnce() -> RunResult<()> + Send + 'static,
    ) -> RunResult<()> {
        let mut distinct: Vec<ProgramShape> = Vec::new();
        for shape in shapes {
            if !distinct.contains(shape) {
                distinct.push(*shape);
            }
        }
        self.queue.start(distinct, self.device.compile_threads(), Box::new(when_done))
    }

    fn has(&self, shape: &ProgramShape) -> bool {
        self.device.is_prepared(&shape.key())
    }

    /// Installs the programs compiled since the last launch. Fails if one could not be compiled.
    fn install_compiled(&mut self) -> RunResult<()> {
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
        let lengths = Lengths {
            positions: sizes.get(BatchAxis::Positions),
            target_positions: sizes.get(BatchAxis::TargetPositions),
        };
        let forward = self.programs.train.forward.model.forward_flops(sizes.rows(), lengths);
        let costs = ProgramCosts::of(&compiled, shape.program, forward);
        self.costs.insert(shape.key(), costs);
        self.device.install(&shape.key(), compiled.step);
    }

    fn wait_for(&mut self, shape: ProgramShape) -> RunResult<()> {
        let start = Instant::now();
        let phase = self.reporter.activity.enter(Phase::Compile);
        self.queue.complete(shape);
        self.reporter.activity.enter(phase);
        self.compile_wait += start.elapsed();
        self.install_compiled()
    }

    /// The time that launches have waited for their programs.
    pub(crate) fn compile_wait(&self) -> Duration {
        self.compile_wait
    }

    fn report_memory(&self) {
        self.reporter.activity.set_memory(self.memory());
    }

    /// The memory that the run uses on each core, by the programs compiled so far.
    fn memory(&self) -> MemoryUsage {
        let recorder = self.queue.recorder();
        let parameters_bytes = self.programs.state.bytes(recorder).parameters;
        let costs = self.costs.values();
        // Caches of generation exist one at a time, while nothing trains.
        let generate = self.programs.generate.as_ref();
        let caches_bytes = generate.map_or(0, |step| step.cache_bytes(recorder));
        let optimizer_bytes = recorder.variable_bytes() as u64 - parameters_bytes - caches_bytes;
        MemoryUsage {
            parameters_bytes,
            optimizer_bytes,
            temporary_bytes: costs.clone().map(|costs| costs.temporary_bytes).max().unwrap_or(0),
            code_bytes: costs.map(|costs| costs.code_bytes).sum(),
        }
    }

    /// Launches the program, which may still run on return. Waits until it is compiled.
    fn launch(&mut self, shape: ProgramShape, inputs: &CoreInputs) -> RunResult<D::Launched> {
        self.install_compiled()?;
        if !self.has(&shape) {
            self.wait_for(shape)?;
        }
        let key = shape.key();
        let work = self.costs.get(&key).map(|costs| costs.work).unwrap_or_default();
        self.reporter.activity.program_launched(work);
        if shape.program.ends_step() {
            self.queue.step_launched();
        }
        self.device.launch(&key, inputs)
    }
}

/// A compiled program of a device.
type StepOf<D> = <<D as ProgramDevice>::Compiler as ProgramCompiler>::Step;

impl Session {
    /// The memory of a core in bytes, if known.
    pub(crate) fn core_memory_bytes(&self) -> Option<u64> {
        cores::memory_bytes(self.device.cores())
    }

    /// The peak FLOP/s of a core, if the device is a known one.
    pub(crate) fn peak_flops(&self, train: &Train) -> Option<f64> {
        flops::peak(self.device.cores().device(0).kind(), train)
    }

    /// The parameter elements for [`trainer_flos`].
    pub(crate) fn trainer_elements(&self) -> usize {
        flops::trainer_elements(self.programs.train.forward.model.parameters())
    }

    pub(crate) fn optimizer(&self) -> &Arc<dyn Optimizer> {
        &self.programs.train.optimizer
    }

    /// Steps that may be launched and not yet read back. With one ahead a device stays busy while
    /// the host reads back; a CPU client blocks the second launch until the first program ends.
    pub(crate) fn steps_in_flight_max(&self) -> usize {
        if self.device.cores().client().platform_name() == "cpu" { 1 } else { 2 }
    }

    pub(crate) fn train_uploader(&self) -> Uploader {
        Uploader::new(self.device.cores(), &self.programs.train.forward.layout)
    }

    pub(crate) fn eval_uploader(&self, program: Program) -> Uploader {
        Uploader::new(self.device.cores(), &self.programs.eval_step(program).forward.layout)
    }

    /// Launches the program for a training batch, which may still run on return.
    pub(crate) fn launch_batch(&mut self, batch: &UploadedBatch) -> RunResult<Pending> {
        self.launch_with(self.programs.step_programs().batch_program(), batch)
    }

    /// Launches the update that ends a step of several batches.
    pub(crate) fn launch_update(&mut self, scalars: &HostArray) -> RunResult<Pending> {
        let inputs = upload::replicate(self.device.cores(), scalars)?;
        self.launch(ProgramShape::update(), &inputs)
    }

    /// Launches `program` for a batch, which may still run on return.
    pub(crate) fn launch_with(
        &mut self,
        program: Program,
        batch: &UploadedBatch,
    ) -> RunResult<Pending> {
        let plan = &batch.host.scheduled.plan;
        self.launch(ProgramShape { program, sizes: plan.sizes }, &batch.inputs)
    }

    /// Copies to the host the parameters that are saved, in the model's order.
    pub(crate) fn saved_parameters(&self) -> RunResult<Vec<HostArray>> {
        self.saved().map(|parameter| parameter.value(&self.device)).collect()
    }

    /// The parameters that are saved: with adapters, those that are trained.
    fn saved(&self) -> impl Iterator<Item = &ParameterState> {
        let model = &self.programs.train.forward.model;
        let pairs = self.programs.state.parameters().iter().zip(model.parameters());
        pairs.filter(|(_, spec)| model.adapters().saves(spec)).map(|(parameter, _)| parameter)
    }

    /// Copies the parameters to the host, in the model's order.
    pub(crate) fn parameters(&self) -> RunResult<Vec<HostArray>> {
        let parameters = self.programs.state.parameters().iter();
        parameters.map(|parameter| parameter.value(&self.device)).collect()
    }

    /// Replaces the parameters that are saved for evaluation. The optimizer's copies are not
    /// replaced, so training must not continue.
    pub(crate) fn set_saved_parameters(&mut self, arrays: &[HostArray]) -> RunResult<()> {
        let saved: Vec<ParameterState> = self.saved().cloned().collect();
        let mut pairs = saved.iter().zip(arrays);
        pairs.try_for_each(|(parameter, array)| parameter.set(&mut self.device, array))
    }
}
