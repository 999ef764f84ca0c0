//! Optimizers that read whole matrices, and groups of parameters, on cores that have parts: the same weights as on one.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::sync::Arc;

use serde_json::json;
use traind_loader::{ArrayValues, BatchArray, ModelInputs};
use traind_models::optimizers::{GroupSettings, Settings};
use traind_models::{Model, ModelConfig, Task, registry, weights};
use traind_trainer::Trainer;
use traind_trainer::session::open_plugin;
use traind_trainer::state::{Fsdp, MeshConfig, StartValues, StateConfig};
use traind_trainer::step::{OptimizerConfig, StepConfig};

const ROWS: usize = 4;
const STEPS: usize = 3;
const RATE: f64 = 0.01;

/// Two matrices of its layer are large enough to be sharded.
fn model() -> Arc<dyn Model> {
    let keys = json!({
        "model_type": "bert", "vocab_size": 16, "hidden_size": 16, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 1024, "max_position_embeddings": 8,
        "type_vocab_size": 2, "num_labels": 3, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    });
    let config = ModelConfig::new("config.json", keys.as_object().unwrap().clone());
    registry::build(config, Task::SequenceClassification).unwrap().into()
}

fn batch() -> Vec<BatchArray> {
    let of = |name, dims: &[usize], values| BatchArray { name, dims: dims.to_vec(), values };
    let words = (0..ROWS as i32).flat_map(|row| [2, 5 + row, 9 - row, 3]).collect();
    vec![
        of("input_ids", &[ROWS, 4], ArrayValues::S32(words)),
        of("attention_mask", &[ROWS, 4], ArrayValues::S32(vec![1; 4 * ROWS])),
        of("labels", &[ROWS], ArrayValues::S32(vec![0, 1, 2, 0])),
    ]
}

/// The weights after some steps, and those before them.
fn trained(mesh: MeshConfig, fsdp: Fsdp, optimizer: &OptimizerConfig) -> [Vec<f32>; 2] {
    let model = model();
    let parameters = weights::initialize(model.parameters(), 1).unwrap();
    let state = StateConfig { fsdp, ..StateConfig::default() };
    let config = StepConfig { mesh, state, optimizer: optimizer.clone(), ..StepConfig::default() };
    let plugin = traind_pjrt::installed_plugin("cpu").unwrap();
    let cores = open_plugin(&plugin, "cpu", mesh.data * mesh.tensor, mesh.mesh().unwrap()).unwrap();
    let inputs = ModelInputs { token_type_ids: false, attention_mask: true, position_ids: false };
    let start = StartValues { parameters, ..StartValues::default() };
    let mut trainer = Trainer::new(cores, model, inputs, &config, &start).unwrap();
    let values = |trainer: &Trainer| -> Vec<f32> {
        let arrays = trainer.parameters().unwrap();
        arrays.iter().flat_map(|array| array.to_f32().unwrap()).collect()
    };
    let before = values(&trainer);
    for _ in 0..STEPS {
        trainer.add_batch(&batch()).unwrap();
        trainer.update(RATE).unwrap();
    }
    [values(&trainer), before]
}

fn far(left: &[f32], right: &[f32]) -> f64 {
    let squares = left.iter().zip(right).map(|(left, right)| f64::from(left - right).powi(2));
    squares.sum::<f64>().sqrt()
}

/// Compares the weights on every mesh with those of one core, by the change of these.
fn check(optimizer: &OptimizerConfig) {
    let mesh = |data, tensor| MeshConfig { data, tensor, ..MeshConfig::default() };
    let [expect, start] = trained(mesh(1, 1), Fsdp::No, optimizer);
    let change = far(&expect, &start);
    assert!(change > 0.01, "{change}");
    for (mesh, fsdp) in [(mesh(2, 1), Fsdp::ShardOptimizer), (mesh(2, 2), Fsdp::FullShard)] {
        let [found, _] = trained(mesh, fsdp, optimizer);
        let difference = far(&found, &expect) / change;
        assert!(difference < 1e-4, "{mesh:?}, {fsdp}: {difference}");
    }
}

#[test]
fn muon_and_groups_are_the_same_on_cores_that_have_parts_of_matrices() {
    let of = |args: &[(&str, f64)]| Settings {
        weight_decay: 0.1,
        // Some gradients are rounding noise, of which Adam would make full steps.
        adam_epsilon: 1e-3,
        args: args.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect(),
        ..Settings::default()
    };
    let group = |pattern: &str| GroupSettings {
        pattern: pattern.to_owned(),
        rate: 1.0,
        weight_decay: None,
        optim: None,
    };
    let momentum = Some(("sgd".to_owned(), of(&[("momentum", 0.9)])));
    let groups = vec![
        GroupSettings { rate: 3.0, weight_decay: Some(0.0), ..group("attention") },
        GroupSettings { optim: momentum, ..group("*embeddings*") },
    ];
    // Fewer iterations are compiled sooner.
    check(&OptimizerConfig { name: "muon".to_owned(), settings: of(&[("ns_steps", 2.0)]), groups });
}
