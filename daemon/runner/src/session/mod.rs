//! The cores with the model on them: compiles every program of the run before its first step, and
//! launches programs.
//!
//! Imports `step`, `state`, `control` and `error`.

mod cores;
mod costs;
mod device;
mod flops;
mod program_files;
#[cfg(test)]
mod tests;
mod upload;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use traind_job_file::Train;
use traind_loader::BatchAxis;
use traind_models::Lengths;
use traind_models::optimizers::Optimizer;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Compiled, MemoryUsage, Phase};
use traind_xla::runtime::{CoreInputs, HostArray, LazyDevice, Pending};

use crate::control::Reporter;
use crate::error::RunResult;
use crate::state::ParameterState;
use crate::step::{JobPrograms, Program, ProgramShape};

pub(crate) use cores::open_cores;
pub(crate) use flops::trainer_flos;
pub(crate) use upload::{UploadedBatch, Uploader};

use costs::ProgramCosts;
use device::{CompiledProgram, ProgramDevice};
use program_files::ProgramFiles;

pub(crate) struct Session<D = LazyDevice> {
    pub device: D,
    pub programs: JobPrograms,
    costs: HashMap<String, ProgramCosts>,
    reporter: Reporter,
    program_files: ProgramFiles,
}

impl<D: ProgramDevice> Session<D> {
    pub(crate) fn new(
        device: D,
        programs: JobPrograms,
        reporter: Reporter,
        run_dir: &Path,
    ) -> Session<D> {
        let program_files = ProgramFiles::new(run_dir);
        Session { device, programs, costs: HashMap::new(), reporter, program_files }
    }

    /// Compiles the missing programs of `shapes`, as many at a time as the host has processors.
    pub(crate) fn prepare(&mut self, shapes: &[ProgramShape]) -> RunResult<()> {
        let mut missing: Vec<ProgramShape> = Vec::new();
        for shape in shapes {
            if !self.has(shape) && !missing.contains(shape) {
                missing.push(*shape);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        self.reporter.activity.enter(Phase::Compile);
        let compile = |shape: &ProgramShape| self.compile(*shape, true);
        let compiled =
            missing.par_iter().with_max_len(1).map(compile).collect::<RunResult<Vec<_>>>()?;
        missing.iter().zip(compiled).for_each(|(shape, compiled)| self.install(shape, compiled));
        Ok(())
    }

    fn has(&self, shape: &ProgramShape) -> bool {
        self.device.is_prepared(&shape.key())
    }

    /// `ahead`: before the first step.
    fn compile(&self, shape: ProgramShape, ahead: bool) -> RunResult<CompiledProgram<D::Step>> {
        let recorder = self.device.recorder();
        let recorded = self.programs.record(recorder, shape)?;
        let description = program_files::describe(shape.key(), recorder, &recorded);
        let compiled = self.device.compile(recorded)?;
        self.program_files.write(description, &compiled);
        self.reporter.journal.record(Kind::Compiled(Compiled {
            program: shape.program.name().to_owned(),
            bucket_length: shape.sizes.get(BatchAxis::Positions) as u32,
            batch: shape.sizes.rows() as u32,
            seconds: compiled.seconds,
            source: compiled.source.into(),
            ahead,
        }))?;
        Ok(compiled)
    }

    fn install(&mut self, shape: &ProgramShape, compiled: CompiledProgram<D::Step>) {
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

    /// The memory that the run uses on each core.
    pub(crate) fn memory(&self) -> MemoryUsage {
        let parameters_bytes = self.programs.state.bytes(self.device.recorder()).parameters;
        let costs = self.costs.values();
        MemoryUsage {
            parameters_bytes,
            optimizer_bytes: self.device.recorder().variable_bytes() as u64 - parameters_bytes,
            temporary_bytes: costs.clone().map(|costs| costs.temporary_bytes).max().unwrap_or(0),
            code_bytes: costs.map(|costs| costs.code_bytes).sum(),
        }
    }

    /// Launches the program, which may still run on return. Compiles it first if it is missing.
    fn launch(&mut self, shape: ProgramShape, inputs: &CoreInputs) -> RunResult<D::Launched> {
        if !self.has(&shape) {
            self.reporter.activity.enter(Phase::Compile);
            let compiled = self.compile(shape, false)?;
            self.install(&shape, compiled);
        }
        let key = shape.key();
        let work = self.costs.get(&key).map(|costs| costs.work).unwrap_or_default();
        self.reporter.activity.program_launched(work);
        self.device.launch(&key, inputs)
    }
}

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
