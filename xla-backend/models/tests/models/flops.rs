//! The estimate of a forward pass against XLA's own count of it, which also
//! has what is not a dot: a few per cent at these sizes.

use serde_json::{Value, json};
use traind_models::{
    Batch, Forward, Lengths, ModelConfig, PREDICTED_SLOTS, PREDICTED_TOKENS, ParameterTensors,
    Task, registry,
};
use traind_xla::{DType, Shape, Trace};

use crate::support::Program;

const ROWS: usize = 3;
const POSITIONS: usize = 40;

fn check(keys: Value, task: Task) {
    check_lengths(keys, task, &[], Lengths::of(POSITIONS));
}

/// Compares the estimate with XLA's count for batches with `more` arrays of integers.
fn check_lengths(keys: Value, task: Task, more: &[(&str, &[usize])], lengths: Lengths) {
    let config = ModelConfig::new("config.json", keys.as_object().unwrap().clone());
    let model = registry::build(config, task).unwrap();
    let trace = Trace::new();
    let parameter = |name: &str, shape: Shape| trace.parameter(name, shape).unwrap();
    let mut batch = Batch::new();
    for name in ["input_ids", "attention_mask"] {
        batch.insert(name, parameter(name, Shape::new(DType::S32, [ROWS, POSITIONS])));
    }
    for (name, dims) in more {
        batch.insert(name, parameter(name, Shape::new(DType::S32, *dims)));
    }
    let specs = model.parameters();
    let tensors = specs.iter().map(|s| (&s.name, parameter(&s.name, s.shape.clone())));
    let cx = Forward {
        trace: &trace,
        parameters: &ParameterTensors::new(tensors),
        random: None,
        gradient_checkpointing: false,
        adapters: None,
        cache: None,
        embedding_noise: None,
    };
    let logits = model.forward(&cx, &batch).unwrap().logits.values;
    let counted = Program::compile_plain(&trace, &[&logits]).flops();
    let ratio = counted / model.forward_flops(ROWS, lengths);
    assert!((1.0..1.1).contains(&ratio), "{keys} {task:?}: {ratio}");
}

fn bert() -> Value {
    json!({
        "model_type": "bert", "vocab_size": 200, "hidden_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 384,
    })
}

#[test]
fn a_forward_pass_has_the_operations_that_xla_counts() {
    for task in [
        Task::SequenceClassification,
        Task::TokenClassification,
        Task::QuestionAnswering,
        Task::MaskedLm,
    ] {
        check(bert(), task);
    }
    let gpt2 = json!({
        "model_type": "gpt2", "vocab_size": 200, "n_embd": 128, "n_layer": 2, "n_head": 2,
        "pad_token_id": 0,
    });
    check(gpt2.clone(), Task::CausalLm);
    check(gpt2, Task::SequenceClassification);
}

/// The vocabulary is counted for the tokens that are predicted, as is what is behind the attention of the last layer.
#[test]
fn masked_tokens_alone_are_counted_with_the_vocabulary() {
    const MASKED: usize = 8;
    let electra = json!({
        "model_type": "electra", "vocab_size": 1000, "embedding_size": 64, "hidden_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 384,
    });
    let tokens = [ROWS, POSITIONS];
    let more: [(&str, &[usize]); 4] = [
        ("labels", &tokens),
        ("sampling_seeds", &[ROWS]),
        (PREDICTED_TOKENS, &[ROWS, MASKED]),
        (PREDICTED_SLOTS, &tokens),
    ];
    let lengths = Lengths { predicted_positions: MASKED, ..Lengths::of(POSITIONS) };
    check_lengths(electra, Task::ReplacedTokenDetection, &more, lengths);
    let more = [more[0], more[2], more[3]];
    check_lengths(bert(), Task::MaskedLm, &more, lengths);
}
