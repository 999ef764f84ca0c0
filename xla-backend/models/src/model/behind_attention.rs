//! Forward passes of the tokens alone that are read: behind the attention of the last layer.
//!
//! T tokens, R tokens that are read, H hidden.

use traind_xla::Tensor;

use super::Forward;
use crate::error::Result;

impl Forward<'_> {
    /// The tokens of `x` [T, H] that are read behind the attention of this layer: [R, H].
    pub(crate) fn read_tokens(&self, x: &Tensor) -> Result<Tensor> {
        self.parameters.read_tokens().map_or_else(|| Ok(x.clone()), |read| read.of_all(x))
    }

    /// The result of `layer`, which reads tokens one by one, for those of `x` [T, H] that are read behind the attention
    /// of this layer; zeros for others.
    pub(crate) fn for_read_tokens(
        &self,
        x: &Tensor,
        layer: impl FnOnce(&Forward<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        match self.parameters.read_tokens() {
            Some(read) => read.to_all(&layer(&self.behind_attention(), &read.of_all(x)?)?),
            None => layer(self, x),
        }
    }

    /// The context of what is behind the attention of this layer.
    pub(crate) fn behind_attention(&self) -> Forward<'_> {
        match self.parameters.read_tokens() {
            Some(read) => Forward { random: read.random.as_ref(), ..*self },
            None => *self,
        }
    }
}
