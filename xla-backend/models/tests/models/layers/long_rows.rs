//! Angles of rows that are longer than those that a model was first trained on (LongRoPE).

use serde_json::json;
use traind_models::{Batch, Model, ModelConfig, Task, registry};
use traind_xla::kernels::Kernels;
use traind_xla::{DType, Trace};

use super::training_pass::{TrainingPass, check_alike};

/// The positions of the longest row that is not long.
const SHORT: usize = 4;
/// The tokens of each row.
const LENGTHS: [usize; 2] = [4, 3];

fn model() -> Model {
    let config = json!({
        "model_type": "phi3", "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 16,
        "initializer_range": 0.3, "pad_token_id": 0, "max_position_embeddings": 16,
        "original_max_position_embeddings": SHORT, "rope_theta": 100.0, "resid_pdrop": 0.0,
        "rope_scaling": {"type": "longrope", "long_factor": [4.0, 8.0], "short_factor": [1.0, 1.5]},
    });
    let config = ModelConfig::new("config.json", config.as_object().unwrap().clone());
    registry::build(config, Task::SequenceClassification).unwrap()
}

/// The rows, padded to as many `positions`.
fn batch(trace: &Trace, positions: usize) -> Batch {
    let at = |row: usize, position: usize| position < LENGTHS[row];
    let values = |value: &dyn Fn(usize, usize) -> f64| {
        let places =
            (0..LENGTHS.len() * positions).map(|place| (place / positions, place % positions));
        let values: Vec<f64> = places
            .map(|(row, position)| if at(row, position) { value(row, position) } else { 0.0 })
            .collect();
        trace.constant(DType::S32, &[LENGTHS.len(), positions], &values).unwrap()
    };
    let mut batch = Batch::new();
    batch.insert("input_ids", values(&|row, position| (5 * row + 3 * position + 1) as f64));
    batch.insert("attention_mask", values(&|_, _| 1.0));
    batch
}

/// Rows are padded to lengths for which there are programs, and transformers pads them to the longest.
#[test]
fn padding_makes_no_row_long() {
    let model = model();
    let pass =
        TrainingPass { kernels: Kernels::Own, gradient_checkpointing: false, rows: LENGTHS.len() };
    let [exact, padded] = [SHORT, SHORT + 3].map(|positions| {
        pass.results(&model, |trace| batch(trace, positions), |output| output.logits.values.clone())
    });
    check_alike("phi3", &padded, &exact);
}
