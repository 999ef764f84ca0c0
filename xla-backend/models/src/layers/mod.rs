//! The parts that families share. A layer declares its parameters below a
//! path when it is built and traces itself when it is called; it stores names,
//! not values.

mod activation;
mod attention;
mod attention_mask;
mod by_kind;
mod conv1d;
mod disentangled_attention;
mod dropout;
mod embedding;
mod gated_mlp;
mod layer_norm;
mod linear;
mod offset_position_embedding;
mod packed_tokens;
mod patch_embedding;
mod position_bias;
mod projections;
mod residual;
mod rms_norm;
mod rotary;

pub use activation::Activation;
pub(crate) use attention::{
    Attention, AttentionConfig, Heads, attend, attend_heads, attend_turned, capped, check_heads,
    split_heads, states_of,
};
pub(crate) use attention_mask::{AttentionMask, Window, within_texts};
pub(crate) use by_kind::ByKind;
pub(crate) use conv1d::Conv1d;
pub(crate) use disentangled_attention::{DisentangledAttention, DisentangledConfig, Distances};
pub(crate) use dropout::{dropout, dropout_of_all, dropout_of_features};
pub use embedding::{Embedding, with_noise};
pub(crate) use embedding::{PositionEmbedding, check_positions};
pub(crate) use gated_mlp::{GateNames, GatedMlp, GatedMlpConfig};
pub(crate) use layer_norm::LayerNorm;
pub(crate) use linear::Linear;
pub(crate) use offset_position_embedding::OffsetPositionEmbedding;
pub(crate) use packed_tokens::{PackedTokens, without_padding};
pub(crate) use patch_embedding::{ImageSizes, PatchEmbedding};
pub(crate) use position_bias::{Buckets, Direction, PositionBias};
pub(crate) use projections::{HeadCounts, ProjectionNames, Projections};
pub(crate) use residual::{Residual, add_dropped};
pub(crate) use rms_norm::{DividedRmsNorm, RmsNorm, Scale};
pub(crate) use rotary::{LongRotary, Rotary, RotaryTable};

use traind_xla::Tensor;

use crate::error::Result;

/// [B, S, H] to [B S, H], which all layers but the heads of attention work on.
pub(crate) fn flatten_tokens(x: &Tensor) -> Result<Tensor> {
    let &[rows, positions, hidden] = x.dims() else { return Ok(x.clone()) };
    Ok(x.reshape(&[rows * positions, hidden])?)
}
