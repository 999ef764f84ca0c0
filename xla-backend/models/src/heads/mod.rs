//! Heads: from the hidden states of a body to the logits and the loss of one
//! task. Families give a head its names and sizes.
//!
//! B rows, S positions, H hidden size, C classes, V vocabulary.

mod causal_lm;
mod embedding;
mod first_token_classifier;
mod last_token_classifier;
mod masked_lm;
mod pooled_classifier;
mod seq2seq_lm;
mod span;
mod token_classifier;
mod transform;

use traind_xla::{DType, Tensor};

pub(crate) use causal_lm::{CausalLmHead, LogitsTransform};
pub(crate) use embedding::EmbeddingHead;
pub(crate) use first_token_classifier::FirstTokenClassifier;
pub(crate) use last_token_classifier::LastTokenClassifier;
pub(crate) use masked_lm::{MaskedLmHead, MaskedLmNames, MaskedLmSizes, Predicts};
pub(crate) use pooled_classifier::{PooledClassifier, Pooling};
pub(crate) use seq2seq_lm::Seq2SeqLmHead;
pub(crate) use span::{SPAN_SCORES, SpanHead};
pub(crate) use token_classifier::TokenClassifier;
pub(crate) use transform::Transform;

use crate::error::Result;
use crate::layers::Linear;
use crate::model::{Batch, Forward};
use crate::parameters::{Dimension, ParameterPath};
use crate::tensor_parallel::Logits;

/// The product of states with the vocabulary: the word embeddings `words` where they are `tied`, else `lm_head`.
pub(crate) fn lm_head(
    root: &mut ParameterPath<'_>,
    words: &str,
    tied: bool,
    [hidden_size, vocab_size]: [usize; 2],
    std: f64,
) -> Linear {
    if tied {
        root.tie(words, "lm_head.weight");
        return Linear::sharing(words);
    }
    let vocabulary = Dimension::vocabulary(vocab_size);
    Linear::without_bias(root.at("lm_head"), hidden_size, vocabulary, std)
}

/// [B S, N] to [B, S, N], by the rows of the batch.
fn by_row(x: &Tensor, batch: &Batch) -> Result<Tensor> {
    let rows = batch.rows()?;
    let &[tokens, width] = x.dims() else { return Ok(x.clone()) };
    Ok(x.reshape(&[rows, tokens / rows, width])?)
}

/// Applies `decoder` to states [N, H]: logits f32[N, V] for the `vocab_size` tokens, or for those
/// that this core has.
fn vocabulary_logits(
    cx: &Forward<'_>,
    decoder: &Linear,
    states: &Tensor,
    vocab_size: usize,
) -> Result<Logits> {
    let logits = decoder.forward(cx, &cx.fan_out(states)?)?.convert(DType::F32)?;
    of_vocabulary(cx, &logits, vocab_size)
}

/// Logits f32[N, V] of the `vocab_size` tokens, or of those that this core has.
fn of_vocabulary(cx: &Forward<'_>, logits: &Tensor, vocab_size: usize) -> Result<Logits> {
    match cx.vocabulary_share(vocab_size, logits.dims()[1])? {
        Some(share) => Logits::of_share(logits, share),
        None => Ok(logits.clone().into()),
    }
}
