//! What masked and causal language models have in common.

use crate::evaluation::Outputs;
use crate::metrics::Metrics;

/// Tokens of a block where the job does not say, as `run_clm` has it.
const BLOCK_SIZE_MAX: u32 = 1024;

/// The block size that the job asks for, else what the model can take.
pub(super) fn block_size(asked: Option<u32>, max_length: u32) -> u32 {
    asked.unwrap_or(max_length.min(BLOCK_SIZE_MAX))
}

/// `accuracy` of the labelled tokens, and `perplexity`.
pub(super) fn metrics(outputs: &Outputs) -> Metrics {
    let tokens = outputs.weight_sum.max(1.0);
    Metrics::from([
        ("accuracy".to_owned(), outputs.correct_sum / tokens),
        ("perplexity".to_owned(), outputs.loss().unwrap_or_default().exp()),
    ])
}
