//! The part of a model that reads tokens.

use std::ops::Range;

use traind_xla::Tensor;

use super::{Batch, Forward, HiddenStates, InputSpec, Lengths};
use crate::error::Result;
use crate::tensor_parallel::token_dims;

/// Reads the tokens of a batch.
pub(crate) trait Body: std::fmt::Debug + Send + Sync {
    /// [`super::Model::base_model_prefix`].
    fn prefix(&self) -> &'static str;

    fn inputs(&self) -> Vec<InputSpec>;

    fn num_layers(&self) -> usize;

    /// [`super::Model::traces_alike`].
    fn traces_alike(&self, _layer: usize, _other: usize) -> bool {
        true
    }

    /// [`super::Model::embeddings`].
    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates>;

    /// [`super::Model::layers`].
    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates>;

    /// The input of the head, f32[B S, H], from the last layer's states.
    fn finish(&self, _cx: &Forward<'_>, states: &HiddenStates) -> Result<Tensor> {
        Ok(states.last.clone())
    }

    /// The numbers of rows and of positions, [B, S], of the tokens that the last states stand for.
    fn token_dims(&self, batch: &Batch) -> Result<[usize; 2]> {
        Ok(token_dims(batch.get("input_ids")?))
    }

    /// Whether it is a decoder whose attention reads a cache. A body whose layers take positions or
    /// masks from elsewhere would compute something else.
    fn is_generative(&self) -> bool {
        false
    }

    /// [`super::Model::rereads_beyond`].
    fn rereads_beyond(&self) -> Option<usize> {
        None
    }

    /// [`super::Model::is_tensor_parallel`]. A body whose layers do not pass their parts between cores would
    /// compute something else.
    fn is_tensor_parallel(&self) -> bool {
        false
    }

    /// [`super::Model::packs_tokens`].
    fn packs_tokens(&self) -> bool {
        false
    }

    /// [`super::Model::attends_packed_tokens`].
    fn attends_packed_tokens(&self) -> bool {
        self.packs_tokens()
    }

    fn vocab_size(&self) -> usize;

    fn max_positions(&self) -> usize;

    /// Whether the last layer leaves out the tokens that a head does not read.
    fn leaves_tokens_out(&self) -> bool {
        false
    }

    /// Floating-point operations of one row. The head reads all tokens, or as many as `read`.
    fn forward_flops(&self, lengths: Lengths, read: Option<usize>) -> f64;
}
