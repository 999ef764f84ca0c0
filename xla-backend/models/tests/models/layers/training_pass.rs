//! Passes of small models as in training, with dropout.

use traind_models::{Batch, Forward, Model, Output, ParameterTensors, weights};
use traind_xla::kernels::Kernels;
use traind_xla::ops::Random;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Tensor, Trace, autodiff};

use crate::support::{Program, check_close};

pub(super) struct TrainingPass {
    pub(super) kernels: Kernels,
    pub(super) gradient_checkpointing: bool,
    /// The rows of the batch.
    pub(super) rows: usize,
}

impl TrainingPass {
    /// Returns the values that `of_output` takes from the output of `batch`, and the gradients of their weighted sum by
    /// all parameters.
    pub(super) fn results(
        &self,
        model: &Model,
        batch: impl FnOnce(&Trace) -> Batch,
        of_output: impl FnOnce(&Output) -> Tensor,
    ) -> Vec<Vec<f32>> {
        let trace = Trace::with_kernels(self.kernels);
        let scalar = |name| trace.parameter(name, Shape::scalar(DType::U32)).unwrap();
        let seeds = ["seed", "step", "row_offset"].map(scalar);
        let random = Random::new(&seeds[0], &seeds[1], &seeds[2]).unwrap().with_rows(self.rows);
        let specs = model.parameters();
        let parameters: Vec<Tensor> = specs
            .iter()
            .map(|spec| trace.parameter(&spec.name, spec.shape.clone()).unwrap())
            .collect();
        let named = specs.iter().map(|spec| spec.name.clone()).zip(parameters.iter().cloned());
        let cx = Forward {
            trace: &trace,
            parameters: &ParameterTensors::new(named),
            random: Some(&random),
            gradient_checkpointing: self.gradient_checkpointing,
            adapters: None,
            cache: None,
            embedding_noise: None,
        };
        let values = of_output(&model.forward(&cx, &batch(&trace)).unwrap());
        let count = values.shape().element_count();
        let weights = trace.iota(DType::F32, &[count], 0).unwrap().add_scalar(0.5).unwrap();
        let sum = values.reshape(&[count]).unwrap().mul(&weights).unwrap().sum(&[0]).unwrap();
        let gradients = autodiff::gradients(&sum, &parameters.iter().collect::<Vec<_>>()).unwrap();
        let results: Vec<&Tensor> = std::iter::once(&values).chain(&gradients).collect();
        let u32_scalar = |value| HostArray::from_u32(&[], &[value]).unwrap();
        let mut arguments = vec![u32_scalar(42), u32_scalar(7), u32_scalar(12)];
        arguments.extend(weights::initialize(specs, 1).unwrap());
        let results = Program::compile(&trace, &results).run(&arguments);
        results.iter().map(|result| result.to_f32().unwrap()).collect()
    }
}

/// Checks that both have the same results, most of which are not zeros.
pub(super) fn check_alike(what: &str, found: &[Vec<f32>], expect: &[Vec<f32>]) {
    let size = |values: &[f32]| values.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    let moving = expect.iter().filter(|values| size(values) > 1e-3).count();
    assert!(4 * moving > 3 * expect.len(), "{what}: {moving} of {}", expect.len());
    assert_eq!(found.len(), expect.len());
    for (index, (found, expect)) in found.iter().zip(expect).enumerate() {
        let tolerance = 2e-5 * f64::from(size(expect).max(1.0));
        check_close(&format!("{what}: result {index}"), found, expect, tolerance);
    }
}
