//! Five AdamW updates as the Trainer takes them, against PyTorch: gradients
//! clipped, decay on all but biases and norms.

use traind_models::optimizers::{Optimizers, Settings, Update};
use traind_models::{Task, clip};
use traind_xla::kernels::Kernels;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Tensor, Trace};

use crate::fixture::{Fixture, folder_of};
use crate::support::{Program, check_close};

/// The settings of `scripts/fixtures/reference.py`.
const STEPS: u64 = 5;
pub(super) const LEARNING_RATE: f64 = 1e-3;
pub(super) const WEIGHT_DECAY: f64 = 0.01;
const MAX_GRAD_NORM: f32 = 1.0;

#[test]
fn five_steps_are_those_of_pytorch() {
    let folder = folder_of("bert-sequence-classification");
    let fixture = Fixture::load(&folder, Task::SequenceClassification);
    let settings = Settings { weight_decay: WEIGHT_DECAY, ..Settings::default() };
    let step = Step::trace(&fixture, Optimizers::new("adamw_torch", &settings, &[]).unwrap());
    let mut state: Vec<HostArray> =
        fixture.weights.iter().chain(&step.zero_slots).cloned().collect();
    let (mut losses, mut norms) = (Vec::new(), Vec::new());
    for number in 1..=STEPS {
        let mut results = step.run(&fixture, &state, number);
        state = results.split_off(2);
        losses.extend(results[0].to_f32().unwrap());
        norms.extend(results[1].to_f32().unwrap());
    }
    fixture.check_relative("step_losses", &losses, 1e-6);
    fixture.check_relative("step_grad_norms", &norms, 1e-5);
    check_weights(&fixture, &state);
}

fn check_weights(fixture: &Fixture, got: &[HostArray]) {
    for (spec, weight) in fixture.model.parameters().iter().zip(got) {
        let name = format!("step{STEPS}.{}", spec.name);
        // Adam makes full steps of rounding noise where a gradient is zero.
        let noise = spec.name.ends_with("key.bias");
        let tolerance = if noise { STEPS as f64 * LEARNING_RATE } else { 1e-5 };
        check_close(&name, &weight.to_f32().unwrap(), fixture.expected(&name), tolerance);
    }
}

/// A whole training step, compiled. Arguments: inputs, weights, scalars,
/// largest norm, slots. Results: loss, norm, new weights, new slots.
pub(super) struct Step {
    program: Program,
    optimizers: Optimizers,
    pub(super) zero_slots: Vec<HostArray>,
}

impl Step {
    pub(super) fn trace(fixture: &Fixture, optimizers: Optimizers) -> Step {
        let trace = Trace::with_kernels(Kernels::Own);
        let traced = fixture.trace(&trace, false, DType::F32);
        let parameter = |name: &str, shape: &Shape| trace.parameter(name, shape.clone()).unwrap();
        let count = optimizers.scalar_count();
        let scalars = parameter("scalars", &Shape::new(DType::F32, [count]));
        let scalars = optimizers.split(&scalars).unwrap();
        let max_norm = parameter("max_norm", &Shape::scalar(DType::F32));
        let clipped = clip::clip_by_global_norm(&traced.gradients, &max_norm).unwrap();
        let (mut new_weights, mut new_slots) = (Vec::new(), Vec::new());
        let mut zero_slots = Vec::new();
        for (index, spec) in fixture.model.parameters().iter().enumerate() {
            let slots = optimizers.of(spec).slots(spec);
            let tensors: Vec<Tensor> =
                slots.iter().map(|slot| parameter(slot.name, &slot.shape)).collect();
            let update = Update {
                spec,
                parameter: &traced.weights[index],
                gradient: &clipped.gradients[index],
                factor: None,
                slots: &tensors,
                scalars: &scalars[optimizers.group(spec)],
                weight_decay: optimizers.decays(spec),
                parts: None,
            };
            let updated = optimizers.of(spec).update(&update).unwrap();
            new_weights.push(updated.parameter);
            new_slots.extend(updated.slots);
            zero_slots.extend(slots.into_iter().map(|slot| HostArray::zeros(slot.shape)));
        }
        let mut outputs = vec![&traced.loss, &clipped.norm];
        outputs.extend(new_weights.iter().chain(&new_slots));
        Step { program: Program::compile(&trace, &outputs), zero_slots, optimizers }
    }

    pub(super) fn run(
        &self,
        fixture: &Fixture,
        state: &[HostArray],
        number: u64,
    ) -> Vec<HostArray> {
        let scalars = self.optimizers.scalars(number, LEARNING_RATE, 1.0);
        let (weights, slots) = state.split_at(fixture.weights.len());
        let inputs = fixture.inputs.iter().map(|(_, array)| array);
        let mut arguments: Vec<HostArray> = inputs.chain(weights).cloned().collect();
        arguments.push(HostArray::from_f32(&[scalars.len()], &scalars).unwrap());
        arguments.push(HostArray::from_f32(&[], &[MAX_GRAD_NORM]).unwrap());
        arguments.extend(slots.iter().cloned());
        self.program.run(&arguments)
    }
}
