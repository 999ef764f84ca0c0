//! `traind-runner convert-weights`: a model folder made of a GGUF file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A request to convert a GGUF file.
#[derive(Debug, Serialize, Deserialize)]
pub struct ConvertWeightsRequest {
    /// The GGUF file.
    pub file: PathBuf,
    /// The model folder, which must be new or empty.
    pub out: PathBuf,
    /// The largest size of a file of weights.
    pub max_shard_bytes: u64,
}

/// The model that was made.
#[derive(Debug, Serialize, Deserialize)]
pub struct ConvertWeightsAnswer {
    /// `model_type` of its config.
    pub model_type: String,
    /// The elements of all parameters.
    pub parameters: u64,
    /// The size of its vocabulary.
    pub tokens: u64,
}
