//! Layers over packed tokens compute what they compute over padded rows: logits, gradients and random bits.

use serde_json::{Map, json};
use traind_models::{Batch, Model, ModelConfig, PACKED_TOKENS, PADDED_TOKENS, Task, registry};
use traind_xla::kernels::Kernels;
use traind_xla::{DType, Trace};

use super::training_pass::{TrainingPass, check_alike};

/// Positions of a padded row.
const POSITIONS: usize = 6;
/// Positions of a packed row on average: two slots more than there are tokens.
const PACKED: usize = 4;
/// The positions of each row's tokens.
type Spans = [[usize; 2]; 3];
const SPANS: Spans = [[0, 5], [0, 2], [0, 3]];
/// The same tokens behind padding.
const SPANS_BEHIND_PADDING: Spans = [[1, 6], [4, 6], [3, 6]];

fn model(model_type: &str) -> Model {
    let keys: Map<_, _> = json!({
        "model_type": model_type, "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 16, "initializer_range": 0.3,
        "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2, "pad_token_id": 0,
        "attention_dropout": 0.2, "mlp_dropout": 0.2, "embedding_dropout": 0.2,
        "local_attention": 2, "global_attn_every_n_layers": 2, "num_key_value_heads": 1, "head_dim": 4,
        "sliding_window": 2, "layer_types": ["sliding_attention", "full_attention"],
        "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 8, "resid_pdrop": 0.2, "embd_pdrop": 0.2,
        "attn_pdrop": 0.2,
    })
    .as_object()
    .unwrap()
    .clone();
    let config = ModelConfig::new("config.json", keys);
    registry::build(config, Task::SequenceClassification).unwrap()
}

/// The ids, the mask, and the places of tokens in padded rows and in packed ones.
fn batch(trace: &Trace, spans: Spans, is_packed: bool) -> Batch {
    let (places, slots) = (spans.len() * POSITIONS, spans.len() * PACKED);
    let [mut ids, mut mask] = [vec![0.0; places], vec![0.0; places]];
    let (mut packed, mut padded) = (vec![places as f64; slots], vec![slots as f64; places]);
    let tokens = spans.iter().enumerate();
    let tokens = tokens.flat_map(|(row, [start, end])| (*start..*end).map(move |at| (row, at)));
    for (token, (row, at)) in tokens.enumerate() {
        let place = row * POSITIONS + at;
        (ids[place], mask[place]) = (((3 * token + 1) % 20) as f64, 1.0);
        (packed[token], padded[place]) = (place as f64, token as f64);
    }
    let mut batch = Batch::new();
    let mut insert = |name: &str, width: usize, values: &[f64]| {
        let values = trace.constant(DType::S32, &[spans.len(), width], values).unwrap();
        batch.insert(name, values);
    };
    insert("input_ids", POSITIONS, &ids);
    insert("attention_mask", POSITIONS, &mask);
    if is_packed {
        insert(PACKED_TOKENS, PACKED, &packed);
        insert(PADDED_TOKENS, POSITIONS, &padded);
    }
    batch
}

/// Logits, and the gradients of their weighted sum by all parameters.
fn results(
    model_type: &str,
    spans: Spans,
    is_packed: bool,
    kernels: Kernels,
    gradient_checkpointing: bool,
) -> Vec<Vec<f32>> {
    let pass = TrainingPass { kernels, gradient_checkpointing, rows: spans.len() };
    pass.results(
        &model(model_type),
        |trace| batch(trace, spans, is_packed),
        |output| output.logits.values.clone(),
    )
}

/// Checks a family with its own kernels, also where activations are recomputed, and without kernels.
fn check(model_type: &str, cases: &[(Kernels, bool)]) {
    check_spans(model_type, SPANS, cases);
}

fn check_spans(model_type: &str, spans: Spans, cases: &[(Kernels, bool)]) {
    let padded = results(model_type, spans, false, Kernels::Own, false);
    for (kernels, checkpoints) in cases {
        let packed = results(model_type, spans, true, *kernels, *checkpoints);
        check_alike(&format!("{model_type}, {kernels:?}"), &packed, &padded);
    }
}

#[test]
fn packed_tokens_give_the_logits_and_gradients_of_padded_rows() {
    check("bert", &[(Kernels::Own, false), (Kernels::Own, true), (Kernels::None, false)]);
    // Its scores are learned, which no kernel computes.
    check("mpnet", &[(Kernels::Own, false)]);
}

/// Queries and keys turn with the positions of padded rows.
#[test]
fn packed_tokens_turn_by_their_positions() {
    for model_type in ["jina_embeddings_v3", "nomic_bert", "gte"] {
        check(model_type, &[(Kernels::Own, false)]);
    }
    // A layer sees the neighbours of a token alone.
    check("modernbert", &[(Kernels::Own, false), (Kernels::Own, true), (Kernels::None, false)]);
}

/// Several queries share a key, which a token sees if it is before it and, in some layers, near.
#[test]
fn packed_tokens_see_those_before_them() {
    check("llama", &[(Kernels::Own, false), (Kernels::None, true)]);
    for model_type in ["gpt2", "gemma2", "qwen3"] {
        check(model_type, &[(Kernels::Own, false)]);
    }
}

/// Their heads read the last token of each row.
#[test]
fn tokens_behind_padding_are_packed_as_those_before_it() {
    for model_type in ["llama", "qwen3", "gemma2", "gpt2"] {
        let cases = [(Kernels::Own, false), (Kernels::None, true)];
        check_spans(model_type, SPANS_BEHIND_PADDING, &cases);
    }
}
