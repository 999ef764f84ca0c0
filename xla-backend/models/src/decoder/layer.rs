//! One layer: norms stand before attention and feed-forward network.
//!
//! B rows, S positions, H hidden.

use traind_xla::{DType, Tensor};

use super::attention::Attention;
use super::config::DecoderConfig;
use super::mlp::Mlp;
use crate::error::Result;
use crate::layers::{AttentionMask, RmsNorm, RotaryTable, dropout};
use crate::model::Forward;
use crate::parameters::ParameterPath;

#[derive(Debug)]
pub(super) struct Layer {
    attention_norm: RmsNorm,
    attention: Attention,
    mlp_norm: RmsNorm,
    mlp: Mlp,
    dropout: f64,
}

impl Layer {
    pub(super) fn new(mut path: ParameterPath<'_>, config: &DecoderConfig) -> Layer {
        let hidden = config.hidden_size;
        Layer {
            attention_norm: config.rms_norm(path.at("input_layernorm"), hidden),
            attention: Attention::new(path.at("self_attn"), config),
            mlp_norm: config.rms_norm(path.at("post_attention_layernorm"), hidden),
            mlp: Mlp::new(path.at("mlp"), config),
            dropout: config.residual_dropout,
        }
    }

    /// f32[B S, H] to f32[B S, H].
    pub(super) fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        rotary: &RotaryTable,
    ) -> Result<Tensor> {
        let normal = self.attention_norm.forward(cx, x)?;
        let x = self.add(cx, x, &self.attention.forward(cx, &normal, mask, rotary)?)?;
        let normal = self.mlp_norm.forward(cx, &x)?;
        self.add(cx, &x, &self.mlp.forward(cx, &normal)?)
    }

    fn add(&self, cx: &Forward<'_>, residual: &Tensor, x: &Tensor) -> Result<Tensor> {
        Ok(residual.add(&dropout(cx, x, self.dropout)?.convert(DType::F32)?)?)
    }
}
