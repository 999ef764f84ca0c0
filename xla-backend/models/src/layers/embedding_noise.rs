//! NEFTune (Jain et al., 2023): uniform noise on the embeddings of words while training.
//!
//! B batch, S sequence, H hidden.

use traind_xla::Tensor;

use crate::error::Result;
use crate::model::Forward;

/// Embedded words [B, S, H] of this core's positions with noise up to the pass's magnitude divided by the root of H, or
/// `x` itself without noise. transformers adds it to the result of a model's input embeddings.
pub fn with_noise(cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
    let (Some(magnitude), Some(random)) = (cx.embedding_noise, cx.random_of_positions()?) else {
        return Ok(x.clone());
    };
    let width = x.dims().last().copied().unwrap_or(1) as f64;
    let share = random.uniform(x.dims())?.mul_scalar(2.0)?.sub_scalar(1.0)?;
    Ok(x.add(&share.mul(&magnitude.mul_scalar(width.sqrt().recip())?)?)?)
}
