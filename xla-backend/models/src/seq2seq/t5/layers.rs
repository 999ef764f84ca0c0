//! `T5Block`: attention, in the decoder attention to the source, and a feed-forward network, each
//! behind a norm.
//!
//! B rows, S positions, H `d_model`.

use traind_xla::Tensor;

use super::attention::Attention;
use super::{Source, T5Config};
use crate::error::Result;
use crate::layers::{Activation, AttentionMask, Linear, RmsNorm, add_dropped, dropout_of_features};
use crate::model::Forward;
use crate::parameters::{Dimension, ParameterPath};

#[derive(Debug)]
pub(super) struct EncoderLayer {
    attention: AttentionPart,
    feed_forward: FeedForward,
}

#[derive(Debug)]
pub(super) struct DecoderLayer {
    attention: AttentionPart,
    source_attention: AttentionPart,
    feed_forward: FeedForward,
}

impl EncoderLayer {
    pub(super) fn new(mut path: ParameterPath<'_>, config: &T5Config) -> EncoderLayer {
        EncoderLayer {
            attention: AttentionPart::new(path.at("layer.0"), "SelfAttention", config),
            feed_forward: FeedForward::new(path.at("layer.1"), config),
        }
    }

    pub(super) fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        scores: &AttentionMask,
    ) -> Result<Tensor> {
        let x = self.attention.to_itself(cx, x, scores)?;
        self.feed_forward.forward(cx, &x)
    }
}

impl DecoderLayer {
    pub(super) fn new(mut path: ParameterPath<'_>, config: &T5Config) -> DecoderLayer {
        DecoderLayer {
            attention: AttentionPart::new(path.at("layer.0"), "SelfAttention", config),
            source_attention: AttentionPart::new(path.at("layer.1"), "EncDecAttention", config),
            feed_forward: FeedForward::new(path.at("layer.2"), config),
        }
    }

    pub(super) fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        source: &Source<'_>,
        scores: &AttentionMask,
    ) -> Result<Tensor> {
        let x = self.attention.to_itself(cx, x, scores)?;
        let x = self.source_attention.to_source(cx, &x, source)?;
        self.feed_forward.forward(cx, &x)
    }
}

/// `T5LayerSelfAttention` and `T5LayerCrossAttention`.
#[derive(Debug)]
struct AttentionPart {
    norm: RmsNorm,
    attention: Attention,
    dropout: f64,
}

impl AttentionPart {
    fn new(mut path: ParameterPath<'_>, name: &str, config: &T5Config) -> AttentionPart {
        AttentionPart {
            attention: Attention::new(path.at(name), config),
            norm: config.norm(path.at("layer_norm")),
            dropout: config.dropout_rate,
        }
    }

    fn to_itself(&self, cx: &Forward<'_>, x: &Tensor, scores: &AttentionMask) -> Result<Tensor> {
        let normal = self.norm.forward(cx, x)?;
        let attended = self.attention.to_itself(cx, &normal, scores)?;
        add_dropped(cx, x, &attended, self.dropout)
    }

    fn to_source(&self, cx: &Forward<'_>, x: &Tensor, source: &Source<'_>) -> Result<Tensor> {
        let normal = self.norm.forward(cx, x)?;
        let attended = self.attention.to_source(cx, &normal, source)?;
        add_dropped(cx, x, &attended, self.dropout)
    }
}

/// `T5LayerFF`.
#[derive(Debug)]
struct FeedForward {
    norm: RmsNorm,
    /// The projection under the activation and, where it is gated, its factor.
    input: Linear,
    gate: Option<Linear>,
    output: Linear,
    activation: Activation,
    dropout: f64,
}

impl FeedForward {
    fn new(mut path: ParameterPath<'_>, config: &T5Config) -> FeedForward {
        let (model, features) = (config.d_model, Dimension::features(config.d_ff));
        let mut input = |name: &str| {
            let path = path.at(&format!("DenseReluDense.{name}"));
            Linear::without_bias(path, model, features, config.std(model))
        };
        let (input, gate) = match config.is_gated {
            true => (input("wi_0"), Some(input("wi_1"))),
            false => (input("wi"), None),
        };
        let output = path.at("DenseReluDense.wo");
        FeedForward {
            input,
            gate,
            output: Linear::without_bias(output, features, model, config.std(config.d_ff)),
            norm: config.norm(path.at("layer_norm")),
            activation: config.activation,
            dropout: config.dropout_rate,
        }
    }

    fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let normal = cx.fan_out(&self.norm.forward(cx, x)?)?;
        let inner = self.input.forward(cx, &normal)?;
        let inner = match &self.gate {
            Some(gate) => self.activation.forward_gated(&inner, &gate.forward(cx, &normal)?)?,
            None => self.activation.forward(&inner)?,
        };
        let inner = dropout_of_features(cx, &inner, self.dropout)?;
        add_dropped(cx, x, &self.output.forward(cx, &inner)?, self.dropout)
    }
}
