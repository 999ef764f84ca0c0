//! `traind-runner data`: the rows, the lengths and the classes of a job's splits.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::schema::JobFile;

/// A question about the data of a job.
#[derive(Debug, Serialize, Deserialize)]
pub struct DataRequest {
    /// The job, resolved.
    pub job: JobFile,
    /// The folder in which tokens are kept for the job.
    pub cache_dir: PathBuf,
}

/// The data of a job.
#[derive(Debug, Serialize, Deserialize)]
pub struct DataAnswer {
    /// The splits that the job reads.
    pub splits: Vec<SplitAnswer>,
    /// Faults that a run would warn of.
    pub warnings: Vec<String>,
}

/// A split of a job's data.
#[derive(Debug, Serialize, Deserialize)]
pub struct SplitAnswer {
    /// `train`, `validation` or `test`.
    pub split: String,
    /// The rows that are left.
    pub rows: u64,
    /// The files that they are from.
    pub files: u64,
    /// Tokens of all rows, without padding.
    pub tokens: u64,
    /// The rows that lost tokens to the limit of their length.
    pub truncated_rows: u64,
    /// The lengths of rows, in tokens.
    pub lengths: SplitLengths,
    /// Rows of each class, by its number; none where labels are no classes.
    pub classes: Vec<(String, u64)>,
}

/// The distribution of the lengths of rows, in tokens.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SplitLengths {
    /// The mean.
    pub mean: f64,
    /// The length that half of the rows do not exceed.
    pub p50: u32,
    /// The length that 90 % of the rows do not exceed.
    pub p90: u32,
    /// The length that 99 % of the rows do not exceed.
    pub p99: u32,
    /// The longest length.
    pub max: u32,
}
