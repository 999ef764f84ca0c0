//! A model on one core that does nothing but generate.

use std::sync::Arc;

use traind_loader::BatchSizes;
use traind_models::{Model, ParameterTensors};
use traind_xla::DType;
use traind_xla::runtime::{CompiledStep, HostArray, LazyDevice, Recording, Variable};

use super::Passes;
use crate::error::RunResult;
use crate::step::{GenerateStep, Program, ProgramShape, SCORES, Weights};

pub(crate) struct LoadedModel {
    device: LazyDevice,
    parameters: Parameters,
    pub step: GenerateStep,
}

/// The parameters of the model, by name.
struct Parameters(Vec<(String, Variable)>);

impl Weights for Parameters {
    fn read(&self, at: &mut Recording<'_>) -> traind_trainer::Result<ParameterTensors> {
        let mut tensors = Vec::with_capacity(self.0.len());
        for (name, variable) in &self.0 {
            tensors.push((name.clone(), at.read(*variable)?));
        }
        Ok(ParameterTensors::new(tensors))
    }
}

impl LoadedModel {
    /// Puts a model with its weights on the device; `arrays` are in the order of its parameters.
    pub(crate) fn new(
        mut device: LazyDevice,
        model: Arc<Model>,
        arrays: &[HostArray],
        beams: usize,
    ) -> RunResult<LoadedModel> {
        let mut parameters = Vec::new();
        for (spec, array) in model.parameters().iter().zip(arrays) {
            let variable = device.recorder_mut().declare(&spec.name, array.shape().clone());
            device.set(variable, array)?;
            parameters.push((spec.name.clone(), variable));
        }
        let step = GenerateStep::new(model, DType::F32, beams)?;
        Ok(LoadedModel { device, parameters: Parameters(parameters), step })
    }

    /// Compiles the passes for batches of `sizes`, unless that is done.
    pub(crate) fn prepare(&mut self, sizes: BatchSizes) -> RunResult<()> {
        let LoadedModel { device, parameters, step } = self;
        step.declare_cache(device.recorder_mut(), parameters, sizes)?;
        for variable in step.caches(Some(&sizes)) {
            device.set(variable, &HostArray::zeros(device.shape(variable).clone()))?;
        }
        let key = |program| ProgramShape::of_batch(program, sizes).key();
        if device.is_prepared(&key(Program::Decode)) {
            return Ok(());
        }
        let compile = |program| -> traind_trainer::Result<CompiledStep> {
            device.compile(&step.inputs(program, &sizes), |at| {
                step.record(at, parameters, program, &sizes)
            })
        };
        let (prefill, decode) =
            rayon::join(|| compile(Program::Prefill), || compile(Program::Decode));
        device.install(&key(Program::Prefill), prefill?);
        device.install(&key(Program::Decode), decode?);
        Ok(())
    }
}

impl Passes for LoadedModel {
    fn run(
        &mut self,
        program: Program,
        sizes: BatchSizes,
        inputs: Vec<Vec<HostArray>>,
    ) -> RunResult<Vec<Vec<f32>>> {
        let cores = self.device.cores().clone();
        let upload = |(core, arrays): (usize, &Vec<HostArray>)| {
            arrays.iter().map(|array| cores.upload(core, array)).collect::<Result<Vec<_>, _>>()
        };
        let buffers = inputs.iter().enumerate().map(upload).collect::<Result<Vec<_>, _>>()?;
        let key = ProgramShape::of_batch(program, sizes).key();
        let fetched = self.device.mark_step(&key, &buffers)?.fetch()?;
        let scores = fetched.per_core(SCORES)?.iter().map(HostArray::to_f32);
        Ok(scores.collect::<Result<_, _>>()?)
    }
}
