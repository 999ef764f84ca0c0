//! `traind-runner mine`: hard negatives of queries among texts. Settings have the names and meanings of
//! sentence-transformers' `mine_hard_negatives`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request to find negatives, and to write rows with them.
#[derive(Debug, Serialize, Deserialize)]
pub struct MineRequest {
    /// The file of queries and positives.
    pub file: String,
    /// The column of queries; the first one where absent.
    #[serde(default)]
    pub query: Option<String>,
    /// The column of positives; the second one where absent.
    #[serde(default)]
    pub positive: Option<String>,
    /// A file of texts besides the positives.
    #[serde(default)]
    pub corpus: Option<String>,
    /// The column of these texts; the first one where absent.
    #[serde(default)]
    pub corpus_column: Option<String>,
    /// The limits of candidates.
    #[serde(flatten)]
    pub limits: MineLimits,
    /// The number of negatives for each query.
    pub num_negatives: usize,
    /// How negatives are chosen among candidates.
    pub sampling_strategy: MineSampling,
    /// Determines the negatives that are drawn.
    pub seed: u64,
    /// The layout of written rows.
    pub format: MinedRows,
    /// Whether rows have the scores of their texts.
    #[serde(default)]
    pub scores: bool,
    /// The file to write.
    pub output: PathBuf,
    /// An empty folder for the files of the jobs.
    pub scratch: PathBuf,
    /// The job that embeds queries, without its data and output.
    pub query_job: Value,
    /// The job that embeds texts, likewise.
    pub corpus_job: Value,
}

/// The limits of candidates. Scores are cosines.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct MineLimits {
    /// The nearest candidates that are left out.
    #[serde(default)]
    pub range_min: usize,
    /// The number of candidates to consider.
    #[serde(default)]
    pub range_max: Option<usize>,
    /// The highest score of a negative.
    #[serde(default)]
    pub max_score: Option<f32>,
    /// The lowest score of a negative.
    #[serde(default)]
    pub min_score: Option<f32>,
    /// The least difference between the scores of the positive and of a negative.
    #[serde(default)]
    pub absolute_margin: Option<f32>,
    /// The least difference between the scores of the positive and of a negative, as a share of the positive's.
    #[serde(default)]
    pub relative_margin: Option<f32>,
}

/// A choice among candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MineSampling {
    /// The nearest candidates.
    Top,
    /// Candidates drawn from all that are within the limits.
    Random,
}

/// A layout of rows with negatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MinedRows {
    /// Query, positive, negative: a row for each negative.
    Triplet,
    /// Query, positive, and a column for each negative. Queries with fewer are left out.
    NTuple,
    /// Query, text, and 1 or 0.
    LabeledPair,
    /// Query, a list of texts, and a list of 1 and 0.
    LabeledList,
}

/// The outcome of a search for negatives.
#[derive(Debug, Serialize, Deserialize)]
pub struct MineAnswer {
    /// The number of queries that differ.
    pub queries: usize,
    /// The number of texts among which negatives were searched.
    pub texts: usize,
    /// The number of rows that were written.
    pub rows: usize,
    /// The number of negatives of all queries.
    pub negatives: usize,
    /// The number of queries with fewer negatives than were wanted.
    pub lacking: usize,
    /// The number of rows that were left out, since they lack a text.
    pub left_out: usize,
}
