//! `traind-runner embed`: the vectors of texts, by a job that trains nothing.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request to embed the texts of a file.
#[derive(Debug, Serialize, Deserialize)]
pub struct EmbedRequest {
    /// The job that embeds them as its test data, without an output folder.
    pub job: Value,
    /// An empty folder for the job's files, in the file system of the output.
    pub scratch: PathBuf,
    /// The file to write.
    pub output: PathBuf,
    /// The kind of file.
    pub form: VectorsForm,
}

/// A kind of file of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VectorsForm {
    /// Parquet with a column of vectors for each column of texts; rows that lack a text have none.
    Predictions,
    /// A tensor of safetensors for each column of texts.
    Tensors,
    /// Parquet with the texts and, in the label, the vectors of each row.
    Rows,
}

/// The outcome of an embedding.
#[derive(Debug, Serialize, Deserialize)]
pub struct EmbedAnswer {
    /// Warnings about the texts.
    pub warnings: Vec<String>,
}
