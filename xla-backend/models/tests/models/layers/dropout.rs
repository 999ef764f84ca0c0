//! Dropout is on where there are random bits, and is the same for the same row
//! of the global batch, whichever core has it and whatever it is padded to.

use serde_json::{Map, json};
use traind_models::{Batch, Forward, ModelConfig, ParameterTensors, Task, registry, weights};
use traind_xla::kernels::Kernels;
use traind_xla::ops::Random;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Tensor, Trace};

use crate::support::Program;

/// Tokens of each row.
const TOKENS: usize = 4;

/// Logits of rows that all hold the same tokens, from `row_offset` on.
fn logits(dropout: f64, training: bool, rows: usize, row_offset: u32) -> Vec<f32> {
    padded_logits(dropout, training, rows, row_offset, TOKENS)
}

fn padded_logits(
    dropout: f64,
    training: bool,
    rows: usize,
    row_offset: u32,
    positions: usize,
) -> Vec<f32> {
    let keys: Map<_, _> = json!({
        "model_type": "bert", "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 16, "initializer_range": 0.3,
        "hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout,
    })
    .as_object()
    .unwrap()
    .clone();
    let config = ModelConfig::new("config.json", keys);
    let model = registry::build(config, Task::SequenceClassification).unwrap();
    let trace = Trace::with_kernels(Kernels::Own);
    let scalar = |name| trace.parameter(name, Shape::scalar(DType::U32)).unwrap();
    let seeds = ["seed", "step", "row_offset"].map(scalar);
    let random = Random::new(&seeds[0], &seeds[1], &seeds[2]).unwrap().with_rows(rows);
    let mut batch = Batch::new();
    let dims = [rows, positions];
    let is_token = trace.iota(DType::S32, &dims, 1).unwrap().lt_scalar(TOKENS as f64).unwrap();
    for name in ["input_ids", "attention_mask"] {
        batch.insert(name, is_token.convert(DType::S32).unwrap());
    }
    let specs = model.parameters();
    let parameter = |spec: &traind_models::ParameterSpec| -> (String, Tensor) {
        (spec.name.clone(), trace.parameter(&spec.name, spec.shape.clone()).unwrap())
    };
    let cx = Forward {
        trace: &trace,
        parameters: &ParameterTensors::new(specs.iter().map(parameter)),
        random: training.then_some(&random),
        gradient_checkpointing: false,
        adapters: None,
        cache: None,
        embedding_noise: None,
    };
    let output = model.forward(&cx, &batch).unwrap();
    assert!(output.loss.is_none());
    let u32_scalar = |value| HostArray::from_u32(&[], &[value]).unwrap();
    let mut arguments = vec![u32_scalar(42), u32_scalar(7), u32_scalar(row_offset)];
    arguments.extend(weights::initialize(specs, 1).unwrap());
    Program::compile(&trace, &[&output.logits.values]).run(&arguments)[0].to_f32().unwrap()
}

#[test]
fn dropout_is_off_without_random_bits_or_rate() {
    let off = logits(0.5, false, 2, 0);
    assert_eq!(off, logits(0.0, true, 2, 0));
    // Up to rounding: an XLA product may add up the terms of different rows in different orders.
    crate::support::check_close("equal rows", &off[..2], &off[2..], 1e-6);
}

#[test]
fn rows_are_dropped_by_their_place_in_the_global_batch() {
    let all = logits(0.5, true, 4, 0);
    assert_ne!(all[..2], all[2..4], "equal rows are dropped differently");
    let second_core = logits(0.5, true, 2, 2);
    crate::support::check_close("rows 2 and 3", &second_core, &all[4..], 1e-5);
}

#[test]
fn tokens_are_dropped_by_their_place_in_the_row() {
    let short = padded_logits(0.5, true, 2, 6, TOKENS);
    let long = padded_logits(0.5, true, 2, 6, 2 * TOKENS + 3);
    crate::support::check_close("padded rows", &long, &short, 1e-5);
}
