//! The part of a model that answers a task.

use traind_xla::Tensor;

use super::{Batch, Forward, InputSpec, Lengths, Output, OutputKind, Reads};
use crate::error::Result;
use crate::tensor_parallel::Logits;

/// Makes logits and a loss of the states of a body.
pub(crate) trait Head: std::fmt::Debug + Send + Sync {
    /// The labels, and the sample weights.
    fn inputs(&self) -> Vec<InputSpec>;

    /// [`super::Model::rows_max`].
    fn rows_max(&self) -> Option<usize> {
        None
    }

    fn output(&self) -> OutputKind;

    /// Whether it reads tokens one by one up to a product with the vocabulary, as layers do, so that
    /// each core that shares layers may have some of the positions.
    fn divides_positions(&self) -> bool {
        false
    }

    /// The tokens whose states it reads.
    fn reads(&self) -> Reads<'_> {
        Reads::All
    }

    /// `hidden_states` f32[B S, H], or f32[R, H] of the R tokens that it reads.
    fn forward(&self, cx: &Forward<'_>, hidden_states: &Tensor, batch: &Batch) -> Result<Output>;

    /// The head itself where its logits are those of the next token.
    fn as_language_model(&self) -> Option<&dyn LanguageModelHead> {
        None
    }

    /// Operations of one row.
    fn forward_flops(&self, lengths: Lengths) -> f64;
}

/// A head that predicts the token behind each.
pub(crate) trait LanguageModelHead {
    /// `hidden_states` f32[N, H] to f32[N, V].
    fn logits(&self, cx: &Forward<'_>, hidden_states: &Tensor) -> Result<Logits>;
}
