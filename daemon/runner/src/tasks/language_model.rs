//! Block sizes and metrics of masked and causal language models.

use super::Outputs;
use crate::metrics::Metrics;

/// The largest default block size, as in `run_clm`.
const BLOCK_SIZE_MAX: u32 = 1024;

/// The job's block size, else the largest that the model and [`BLOCK_SIZE_MAX`] allow.
pub(super) fn block_size(block_size: Option<u32>, max_length: u32) -> u32 {
    block_size.unwrap_or(max_length.min(BLOCK_SIZE_MAX))
}

/// Returns the `accuracy` on labelled tokens, and the `perplexity`.
pub(super) fn metrics(outputs: &Outputs) -> Metrics {
    let tokens = outputs.weight_sum.max(1.0);
    Metrics::from([
        ("accuracy".to_owned(), outputs.correct_sum / tokens),
        ("perplexity".to_owned(), outputs.loss().unwrap_or_default().exp()),
    ])
}
