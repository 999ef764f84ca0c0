//! Five AdamW updates as the Trainer takes them, against PyTorch: gradients
//! clipped, decay on all but biases and norms.

use std::sync::Arc;

use traind_loader::{ArrayValues, BatchArray, ModelInputs};
use traind_models::Task;
use traind_models::optimizers::Settings;
use traind_trainer::Trainer;
use traind_trainer::state::{StartValues, StateConfig};
use traind_trainer::step::{OptimizerConfig, StepConfig};
use traind_xla::DType;
use traind_xla::runtime::HostArray;

use crate::fixture::{Fixture, folder_of};
use crate::support::{check_close, cores};

/// The settings of `scripts/fixtures/reference.py`.
const STEPS: u64 = 5;
pub(super) const LEARNING_RATE: f64 = 1e-3;
pub(super) const WEIGHT_DECAY: f64 = 0.01;
const MAX_GRAD_NORM: f64 = 1.0;

#[test]
fn five_steps_are_those_of_pytorch() {
    let folder = folder_of("bert-sequence-classification");
    let fixture = Fixture::load(&folder, Task::SequenceClassification);
    let settings = Settings { weight_decay: WEIGHT_DECAY, ..Settings::default() };
    let mut trainer = trainer(&fixture, OptimizerConfig { settings, ..OptimizerConfig::default() });
    let (mut losses, mut norms) = (Vec::new(), Vec::new());
    for _ in 0..STEPS {
        trainer.add_batch(&batch(&fixture)).unwrap();
        let results = trainer.update(LEARNING_RATE).unwrap();
        losses.push(results.loss as f32);
        norms.push(results.grad_norm as f32);
    }
    fixture.check_relative("step_losses", &losses, 1e-6);
    fixture.check_relative("step_grad_norms", &norms, 1e-5);
    check_weights(&fixture, &trainer.parameters().unwrap());
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

/// Trains the fixture's model on one core.
pub(super) fn trainer(fixture: &Fixture, optimizer: OptimizerConfig) -> Trainer {
    let has = |name| fixture.inputs.iter().any(|(input, _)| *input == name);
    let inputs = ModelInputs {
        token_type_ids: has("token_type_ids"),
        attention_mask: has("attention_mask"),
        position_ids: has("position_ids"),
    };
    let state = StateConfig { max_grad_norm: MAX_GRAD_NORM, ..StateConfig::default() };
    let config = StepConfig { state, optimizer, ..StepConfig::default() };
    let start = StartValues { parameters: fixture.weights.clone(), ..StartValues::default() };
    Trainer::new(cores(1), Arc::clone(&fixture.model), inputs, &config, &start).unwrap()
}

/// The fixture's inputs as the trainer takes them.
pub(super) fn batch(fixture: &Fixture) -> Vec<BatchArray> {
    let array = |(name, array): &(&'static str, HostArray)| {
        let values = match array.shape().dtype {
            DType::U8 => ArrayValues::U8(array.bytes().to_vec()),
            DType::S32 => ArrayValues::S32(array.to_s32().unwrap()),
            _ => ArrayValues::F32(array.to_f32().unwrap()),
        };
        BatchArray { name, dims: array.shape().dims.clone(), values }
    };
    fixture.inputs.iter().map(array).collect()
}
