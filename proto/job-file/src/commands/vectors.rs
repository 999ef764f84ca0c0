//! `traind-runner vectors`: writes the vectors that a job predicted as tensors.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A request to write vectors as safetensors, or as rows to train on.
#[derive(Debug, Serialize, Deserialize)]
pub struct VectorsRequest {
    /// The file of predictions, with columns of vectors.
    pub predictions: PathBuf,
    /// The file to write, with a tensor for each column.
    pub output: PathBuf,
    /// The file of the texts. Where it is given, the output is Parquet instead, with these and, in the label, the
    /// vectors of each row.
    #[serde(default)]
    pub texts: Option<String>,
}

/// The account of the vectors that were written.
#[derive(Debug, Serialize, Deserialize)]
pub struct VectorsAnswer {
    /// The number of tensors.
    pub tensors: usize,
}
