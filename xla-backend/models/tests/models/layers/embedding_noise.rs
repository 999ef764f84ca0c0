//! Noise on embedded words: uniform, as large as transformers makes it, the same for the same row of
//! the global batch, and present in every family.

use serde_json::{Map, Value, json};
use traind_models::layers::with_noise;
use traind_models::{Batch, Forward, ModelConfig, ParameterTensors, Task, registry, weights};
use traind_xla::ops::Random;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Tensor, Trace};

use crate::support::{Program, check_close};

const ALPHA: f64 = 5.0;

/// The arguments of a pass over rows from `row_offset` on.
fn arguments(row_offset: u32, positions: usize) -> Vec<HostArray> {
    let scalar = |value| HostArray::from_u32(&[], &[value]).unwrap();
    let magnitude = ALPHA / (positions as f64).sqrt();
    let magnitude = HostArray::from_f32(&[], &[magnitude as f32]).unwrap();
    vec![scalar(42), scalar(7), scalar(row_offset), magnitude]
}

/// The results of `body` with noise, on a trace whose first parameters are [`arguments`].
fn traced(rows: usize, body: impl FnOnce(&Trace, &Random, &Tensor) -> Tensor) -> Program {
    let trace = Trace::new();
    let scalar = |name| trace.parameter(name, Shape::scalar(DType::U32)).unwrap();
    let seeds = ["seed", "step", "row_offset"].map(scalar);
    let magnitude = trace.parameter("magnitude", Shape::scalar(DType::F32)).unwrap();
    let random = Random::new(&seeds[0], &seeds[1], &seeds[2]).unwrap().with_rows(rows);
    let result = body(&trace, &random, &magnitude);
    Program::compile(&trace, &[&result])
}

fn noise(rows: usize, row_offset: u32, [positions, width]: [usize; 2]) -> Vec<f32> {
    let program = traced(rows, |trace, random, magnitude| {
        let zeros = trace.full(0.0, Shape::new(DType::F32, [rows, positions, width])).unwrap();
        let cx = Forward {
            trace,
            parameters: &ParameterTensors::new(Vec::<(String, Tensor)>::new()),
            random: Some(random),
            gradient_checkpointing: false,
            adapters: None,
            cache: None,
            embedding_noise: Some(magnitude),
        };
        with_noise(&cx, &zeros).unwrap()
    });
    program.run(&arguments(row_offset, positions))[0].to_f32().unwrap()
}

/// transformers draws from -m to m, where m is alpha divided by the root of positions times width.
#[test]
fn noise_is_uniform_and_as_large_as_in_transformers() {
    let (rows, positions, width) = (8, 32, 64);
    let bound = ALPHA / ((positions * width) as f64).sqrt();
    let found = noise(rows, 0, [positions, width]);
    let count = found.len() as f64;
    assert!(found.iter().all(|value| f64::from(value.abs()) <= bound * (1.0 + 1e-6)));
    // Ten parts of equal size; the share of each has a standard deviation of 0.0023.
    for part in 0..10 {
        let from = bound * (f64::from(part) / 5.0 - 1.0);
        let inside = |value: &&f32| (from..from + bound / 5.0).contains(&f64::from(**value));
        let share = found.iter().filter(inside).count() as f64 / count;
        assert!((share - 0.1).abs() < 0.012, "part {part}: {share}");
    }
}

#[test]
fn a_row_has_its_own_noise_on_any_core() {
    let all = noise(4, 0, [3, 5]);
    assert_ne!(all[..15], all[15..30]);
    assert_eq!(noise(2, 2, [3, 5]), all[30..]);
}

/// Logits of one row of five tokens.
fn logits(config: &Value, with_noise: bool) -> Vec<f32> {
    let keys: Map<String, Value> = config.as_object().unwrap().clone();
    let model =
        registry::build(ModelConfig::new("config.json", keys), Task::SequenceClassification);
    let model = model.unwrap();
    let specs = model.parameters();
    let program = traced(1, |trace, random, magnitude| {
        let parameters = specs.iter().map(|spec| {
            (spec.name.clone(), trace.parameter(&spec.name, spec.shape.clone()).unwrap())
        });
        let mut batch = Batch::new();
        let ones = trace.full(1.0, Shape::new(DType::S32, [1, 5])).unwrap();
        for name in ["input_ids", "attention_mask", "last_token"] {
            batch.insert(name, ones.clone());
        }
        let cx = Forward {
            trace,
            parameters: &ParameterTensors::new(parameters),
            random: Some(random),
            gradient_checkpointing: false,
            adapters: None,
            cache: None,
            embedding_noise: with_noise.then_some(magnitude),
        };
        model.forward(&cx, &batch).unwrap().logits.values
    });
    let mut arguments = arguments(0, 5);
    arguments.extend(weights::initialize(specs, 1).unwrap());
    program.run(&arguments)[0].to_f32().unwrap()
}

#[test]
fn every_kind_of_model_has_it() {
    let bert = json!({
        "model_type": "bert", "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 16, "initializer_range": 0.3,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
    });
    let gpt2 = json!({
        "model_type": "gpt2", "vocab_size": 20, "n_embd": 8, "n_layer": 1, "n_head": 2,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "initializer_range": 0.3,
        "pad_token_id": 0,
    });
    let llama = json!({
        "model_type": "llama", "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 16, "initializer_range": 0.3,
        "pad_token_id": 0,
    });
    for config in [bert, gpt2, llama] {
        let plain = logits(&config, false);
        let noisy = logits(&config, true);
        let difference = plain.iter().zip(&noisy).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(difference > 1e-3, "{config}: {plain:?} {noisy:?}");
        check_close("repeated", &logits(&config, true), &noisy, 0.0);
    }
}
