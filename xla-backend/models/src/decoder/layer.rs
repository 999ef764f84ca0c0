//! One layer: attention and feed-forward network, with norms before or behind them.
//!
//! B rows, S positions, H hidden.

use traind_xla::{DType, Tensor};

use super::attention::Attention;
use super::config::{DecoderConfig, NormPlacement};
use crate::error::Result;
use crate::layers::{AttentionMask, GatedMlp, RmsNorm, RotaryTable, dropout};
use crate::model::Forward;
use crate::parameters::ParameterPath;

#[derive(Debug)]
pub(super) struct Layer {
    attention_norms: Norms,
    attention: Attention,
    mlp_norms: Norms,
    mlp: GatedMlp,
    dropout: f64,
    /// The factor of what is added to the residual.
    scale: Option<f64>,
}

/// The norms around attention or a feed-forward network.
#[derive(Debug)]
struct Norms {
    before: Option<RmsNorm>,
    after: Option<RmsNorm>,
}

impl Layer {
    pub(super) fn new(mut path: ParameterPath<'_>, config: &DecoderConfig) -> Layer {
        let (hidden, norms) = (config.hidden_size, config.norms);
        let mut norm = |name: &str| Some(config.rms_norm(path.at(name), hidden));
        // Without norms behind, `post_attention_layernorm` is that before the feed-forward network.
        let [attention_norms, mlp_norms] = match norms {
            NormPlacement::Before => [
                Norms { before: norm("input_layernorm"), after: None },
                Norms { before: norm("post_attention_layernorm"), after: None },
            ],
            NormPlacement::After => [
                Norms { before: None, after: norm("post_attention_layernorm") },
                Norms { before: None, after: norm("post_feedforward_layernorm") },
            ],
            NormPlacement::BeforeAndAfter => [
                Norms { before: norm("input_layernorm"), after: norm("post_attention_layernorm") },
                Norms {
                    before: norm("pre_feedforward_layernorm"),
                    after: norm("post_feedforward_layernorm"),
                },
            ],
        };
        Layer {
            attention_norms,
            attention: Attention::new(path.at("self_attn"), config),
            mlp_norms,
            mlp: config.mlp(path.at("mlp")),
            dropout: config.residual_dropout,
            scale: config.residual_scale,
        }
    }

    /// f32[B S, H] to f32[B S, H], or to f32[R, H] of the tokens that are read.
    pub(super) fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        rotary: Option<&RotaryTable>,
    ) -> Result<Tensor> {
        let attend = |x: &Tensor| self.attention.forward(cx, x, mask, rotary);
        let attended = self.attention_norms.around(cx, x, attend)?;
        let (x, cx) = (&cx.read_tokens(x)?, &cx.behind_attention());
        let x = self.add(cx, x, &attended)?;
        let mlp = |x: &Tensor| self.mlp.forward(cx, x);
        self.add(cx, &x, &self.mlp_norms.around(cx, &x, mlp)?)
    }

    fn add(&self, cx: &Forward<'_>, residual: &Tensor, x: &Tensor) -> Result<Tensor> {
        let x = dropout(cx, x, self.dropout)?.convert(DType::F32)?;
        match self.scale {
            Some(scale) => Ok(residual.add(&x.mul_scalar(scale)?)?),
            None => Ok(residual.add(&x)?),
        }
    }
}

impl Norms {
    /// Applies `body` to `x` between the norms.
    fn around(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        body: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let y = match &self.before {
            Some(norm) => body(&norm.forward(cx, x)?)?,
            None => body(x)?,
        };
        match &self.after {
            Some(norm) => norm.forward(cx, &y.convert(DType::F32)?),
            None => Ok(y),
        }
    }
}
