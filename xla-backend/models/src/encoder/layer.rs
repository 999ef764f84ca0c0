//! `BertLayer`: attention and a feed-forward network, each added to its input
//! and normalized after.

use traind_xla::Tensor;

use super::{EncoderConfig, EncoderNames};
use crate::error::Result;
use crate::layers::{Activation, Attention, AttentionMask, Linear, Residual};
use crate::model::Forward;
use crate::parameters::{Dimension, ParameterPath};

#[derive(Debug)]
pub(super) struct Layer {
    attention: Attention,
    attention_output: Residual,
    intermediate: Linear,
    activation: Activation,
    output: Residual,
}

impl Layer {
    pub(super) fn new(
        mut path: ParameterPath<'_>,
        names: &EncoderNames,
        config: &EncoderConfig,
    ) -> Layer {
        let hidden = config.hidden_size();
        let inner = Dimension::features(config.intermediate_size);
        Layer {
            attention: Attention::new(&mut path, names.projections, &config.attention),
            attention_output: Residual {
                dense: config.linear(path.at(names.attention_output), config.heads(), hidden),
                norm: config.layer_norm(path.at(names.attention_norm)),
                dropout: config.attention_output_dropout,
            },
            intermediate: config.linear(path.at(names.intermediate), hidden, inner),
            activation: config.hidden_act,
            output: Residual {
                dense: config.linear(path.at(names.output), inner, hidden),
                norm: config.layer_norm(path.at(names.output_norm)),
                dropout: config.output_dropout,
            },
        }
    }

    /// `x` [B S, H] to [B S, H].
    pub(super) fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
    ) -> Result<Tensor> {
        let attended = self.attention.forward(cx, x, mask)?;
        let x = self.attention_output.forward(cx, &attended, x)?;
        let inner = self.intermediate.forward(cx, &cx.fan_out(&x)?)?;
        let inner = self.activation.forward(&inner)?;
        self.output.forward(cx, &inner, &x)
    }
}
