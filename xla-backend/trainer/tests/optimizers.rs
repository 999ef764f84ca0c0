//! Optimizers that read whole matrices, and groups of parameters, on cores that have parts: the same weights as on one.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

mod on_cpu;

use std::sync::Arc;

use serde_json::json;
use traind_loader::{ArrayValues, BatchArray};
use traind_models::optimizers::{GroupSettings, Optimizer, Settings, Slot, Update, Updated};
use traind_models::tuning::{Lora, PeftBias, TargetModules, add_lora};
use traind_models::{Model, ModelConfig, ParameterSpec, Task, registry, weights};
use traind_trainer::Trainer;
use traind_trainer::state::{Fsdp, MeshConfig, StateConfig};
use traind_trainer::step::{OptimizerConfig, StepConfig};
use traind_xla::runtime::HostArray;

const ROWS: usize = 4;
const STEPS: usize = 3;
const RATE: f64 = 0.01;

/// The parameters that are trained.
#[derive(Clone, Copy, Debug)]
enum Trained {
    All,
    /// DoRA's adapters of two linear layers of each layer, and the head.
    Adapters,
}

/// Two matrices of each layer are large enough to be sharded, and one of each of their adapters.
fn model(trained: Trained) -> Arc<Model> {
    let layers = match trained {
        Trained::All => 1,
        Trained::Adapters => 2,
    };
    let keys = json!({
        "model_type": "bert", "vocab_size": 16, "hidden_size": 16, "num_hidden_layers": layers,
        "num_attention_heads": 2, "intermediate_size": 1024, "max_position_embeddings": 8,
        "type_vocab_size": 2, "num_labels": 3, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    });
    let config = ModelConfig::new("config.json", keys.as_object().unwrap().clone());
    let mut model = registry::build(config, Task::SequenceClassification).unwrap();
    if let Trained::Adapters = trained {
        let lora = Lora {
            r: 16,
            lora_alpha: 16.0,
            lora_dropout: 0.0,
            target_modules: TargetModules::Named(vec![
                "query".to_owned(),
                "intermediate.dense".to_owned(),
            ]),
            modules_to_save: vec!["classifier".to_owned()],
            use_rslora: false,
            use_dora: true,
            bias: PeftBias::None,
            layers_to_transform: None,
            trainable_token_indices: None,
            ensure_weight_tying: false,
        };
        add_lora(&mut model, &lora).unwrap();
    }
    model.into()
}

/// Values for all parameters. Those that begin as zeros, such as the second matrices of adapters, are small numbers:
/// gradients of the first ones would be zero too.
fn start(model: &Model) -> Vec<HostArray> {
    let mut arrays = weights::draw(model, 1).unwrap().arrays;
    for (spec, array) in model.parameters().iter().zip(&mut arrays) {
        if spec.name.contains("lora_B") {
            let values = (0..spec.shape.element_count()).map(|place| (place % 7) as f32 * 0.01);
            let values: Vec<f32> = values.collect();
            *array = HostArray::from_f32(&spec.shape.dims, &values).unwrap();
        }
    }
    arrays
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
fn trained(
    trained: Trained,
    mesh: MeshConfig,
    fsdp: Fsdp,
    optimizer: &OptimizerConfig,
) -> [Vec<f32>; 2] {
    let model = model(trained);
    let parameters = start(&model);
    let state = StateConfig { fsdp, rows_per_core: ROWS / mesh.data, ..StateConfig::default() };
    let config = StepConfig { mesh, state, optimizer: optimizer.clone(), ..StepConfig::default() };
    let mut trainer = on_cpu::trainer(model, parameters, &config);
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

fn mesh(data: usize, tensor: usize, pipeline: usize) -> MeshConfig {
    MeshConfig { data, tensor, pipeline, ..MeshConfig::default() }
}

/// Compares the weights on meshes with those of one core, by the change of these.
fn check(parameters: Trained, optimizer: &OptimizerConfig, meshes: &[(MeshConfig, Fsdp)]) {
    let [expect, start] = trained(parameters, mesh(1, 1, 1), Fsdp::No, optimizer);
    let change = far(&expect, &start);
    assert!(change > 0.01, "{change}");
    for (mesh, fsdp) in meshes {
        let [found, _] = trained(parameters, *mesh, *fsdp, optimizer);
        let difference = far(&found, &expect) / change;
        assert!(difference < 1e-4, "{mesh:?}, {fsdp}: {difference}");
    }
}

fn settings(args: &[(&str, f64)]) -> Settings {
    Settings {
        weight_decay: 0.1,
        // Some gradients are rounding noise, of which Adam would make full steps.
        adam_epsilon: 1e-3,
        args: args.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect(),
        ..Settings::default()
    }
}

fn group(pattern: &str) -> GroupSettings {
    GroupSettings { pattern: pattern.to_owned(), rate: 1.0, weight_decay: None, optim: None }
}

/// Muon with few iterations, which are compiled sooner.
fn muon(groups: Vec<GroupSettings>) -> OptimizerConfig {
    let settings = settings(&[("ns_steps", 2.0)]);
    OptimizerConfig { name: "muon".to_owned(), settings, groups, own: None }
}

/// The descent of gradients as a caller of the library may write it, with a rate of its own for biases.
#[derive(Debug)]
struct Descent;

impl Optimizer for Descent {
    fn slots(&self, _spec: &ParameterSpec) -> Vec<Slot> {
        Vec::new()
    }

    fn scalar_names(&self) -> &'static [&'static str] {
        &["learning_rate", "rate_of_biases"]
    }

    fn scalars(&self, _step: u64, learning_rate: f64) -> Vec<f32> {
        [learning_rate, 2.0 * learning_rate].map(|rate| rate as f32).to_vec()
    }

    fn update(&self, at: &Update<'_>) -> traind_models::Result<Updated> {
        let is_bias = at.spec.name.ends_with(".bias");
        let rate = at.scalars.get(if is_bias { "rate_of_biases" } else { "learning_rate" })?;
        let parameter = at.parameter.sub(&at.scaled_gradient()?.mul(rate)?)?;
        Ok(Updated { parameter, slots: Vec::new() })
    }
}

#[test]
fn an_optimizer_of_the_caller_updates_all_parameters() {
    let own: Arc<dyn Optimizer> = Arc::new(Descent);
    let own = OptimizerConfig { own: Some(own), ..OptimizerConfig::default() };
    let biases = GroupSettings { rate: 2.0, ..group(r"\.bias$") };
    let groups = vec![biases];
    let named = OptimizerConfig { name: "sgd".to_owned(), groups, ..OptimizerConfig::default() };
    let one = |optimizer| trained(Trained::All, mesh(1, 1, 1), Fsdp::No, optimizer);
    let ([found, start], [expect, _]) = (one(&own), one(&named));
    assert!(far(&found, &start) > 0.01);
    assert!(far(&found, &expect) < 1e-6 * far(&expect, &start));
    check(Trained::All, &own, &[(mesh(2, 2, 1), Fsdp::FullShard)]);
    let both = OptimizerConfig { groups: named.groups, ..own };
    let refused = both.optimizers().err().unwrap().to_string();
    assert!(refused.starts_with("1 groups of parameters beside an own optimizer"), "{refused}");
}

#[test]
fn muon_and_groups_are_the_same_on_cores_that_have_parts_of_matrices() {
    let momentum = Some(("sgd".to_owned(), settings(&[("momentum", 0.9)])));
    let groups = vec![
        GroupSettings { rate: 3.0, weight_decay: Some(0.0), ..group("attention") },
        GroupSettings { optim: momentum, ..group("*embeddings*") },
    ];
    let meshes = [(mesh(2, 1, 1), Fsdp::ShardOptimizer), (mesh(2, 2, 1), Fsdp::FullShard)];
    check(Trained::All, &muon(groups), &meshes);
}

/// Adapters whose second matrices have a rate of their own, as LoRA+ has it, are updated alike on meshes, on stages
/// too.
#[test]
fn muon_and_groups_are_the_same_for_adapters_on_meshes() {
    let momentum = Some(("sgd".to_owned(), settings(&[("momentum", 0.9)])));
    let groups = vec![
        GroupSettings { rate: 4.0, ..group("lora_B") },
        GroupSettings { optim: momentum, ..group("*magnitude*") },
    ];
    let meshes = [(mesh(2, 2, 1), Fsdp::FullShard), (mesh(1, 1, 2), Fsdp::No)];
    check(Trained::Adapters, &muon(groups), &meshes);
}
