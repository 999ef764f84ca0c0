//! Parts of the tasks whose labels are tokens: block sizes, the token that ends a text, metrics.

use std::path::Path;

use traind_job_file::Data;

use super::Outputs;
use crate::error::RunResult;
use crate::metrics::Metrics;

/// The largest default block size, as in `run_clm`.
const BLOCK_SIZE_MAX: u32 = 1024;

/// The job's block size, else the largest that the model and [`BLOCK_SIZE_MAX`] allow.
pub(super) fn block_size(block_size: Option<u32>, max_length: u32) -> u32 {
    block_size.unwrap_or(max_length.min(BLOCK_SIZE_MAX))
}

/// The token that texts end with: the job's, else that of the tokenizer in `folder`.
pub(super) fn eos_token(data: &Data, folder: &Path) -> RunResult<Option<String>> {
    match &data.eos_token {
        Some(token) => Ok(Some(token.clone())),
        None => Ok(traind_loader::eos_token(folder)?),
    }
}

/// Returns the `accuracy` on labelled tokens, and the `perplexity`.
pub(super) fn metrics(outputs: &Outputs) -> Metrics {
    let tokens = outputs.weight_sum.max(1.0);
    Metrics::from([
        ("accuracy".to_owned(), outputs.correct_sum / tokens),
        ("perplexity".to_owned(), outputs.loss().unwrap_or_default().exp()),
    ])
}
