//! Losses and scores of batches.

mod accuracy;
mod embeddings;
mod empty_slots;
mod label_smoothing;
mod losses;
mod named_losses;
mod preference;
mod preference_objectives;
mod replaced_tokens;
mod rerankers;

use serde_json::Value;

use crate::fixture::folder_of;

/// A file of the fixtures.
fn json_fixture(name: &str) -> Value {
    let file = std::fs::read_to_string(folder_of(name)).unwrap();
    serde_json::from_str(&file).unwrap()
}

/// All numbers of nested lists.
fn floats(values: &Value) -> Vec<f32> {
    match values {
        Value::Array(values) => values.iter().flat_map(floats).collect(),
        value => vec![value.as_f64().unwrap() as f32],
    }
}
