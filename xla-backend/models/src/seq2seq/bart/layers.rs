//! `BartEncoderLayer` and `BartDecoderLayer`: attention, in the decoder attention to the source,
//! and a feed-forward network, each with a norm.
//!
//! B rows, S positions, H `d_model`.

use traind_xla::Tensor;

use super::{BartConfig, Source, StackConfig};
use crate::error::Result;
use crate::layers::{
    Activation, Attention, AttentionMask, LayerNorm, Linear, add_dropped, dropout_of_features,
};
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
    pub(super) fn new(mut path: ParameterPath<'_>, config: &BartConfig) -> EncoderLayer {
        let stack = &config.encoder;
        EncoderLayer {
            attention: AttentionPart::new(&mut path, "self_attn", config, stack),
            feed_forward: FeedForward::new(&mut path, config, stack),
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
    pub(super) fn new(mut path: ParameterPath<'_>, config: &BartConfig) -> DecoderLayer {
        let stack = &config.decoder;
        DecoderLayer {
            attention: AttentionPart::new(&mut path, "self_attn", config, stack),
            source_attention: AttentionPart::new(&mut path, "encoder_attn", config, stack),
            feed_forward: FeedForward::new(&mut path, config, stack),
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

/// A residual connection around a part of a layer, and its norm.
#[derive(Debug)]
struct Residual {
    norm: LayerNorm,
    normalizes_before: bool,
    dropout: f64,
}

impl Residual {
    fn new(path: ParameterPath<'_>, config: &BartConfig) -> Residual {
        Residual {
            norm: config.layer_norm(path),
            normalizes_before: config.normalizes_before,
            dropout: config.dropout,
        }
    }

    fn around(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        part: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        if !self.normalizes_before {
            return self.norm.forward_sum(cx, &part(x)?, x, self.dropout);
        }
        let inner = part(&self.norm.forward(cx, x)?)?;
        add_dropped(cx, x, &inner, self.dropout)
    }
}

#[derive(Debug)]
struct AttentionPart {
    attention: Attention,
    output: Linear,
    residual: Residual,
}

impl AttentionPart {
    fn new(
        path: &mut ParameterPath<'_>,
        name: &str,
        config: &BartConfig,
        stack: &StackConfig,
    ) -> AttentionPart {
        let width = config.d_model;
        let heads = Dimension::heads(width, stack.attention_heads, 1);
        let mut module = path.at(name);
        AttentionPart {
            attention: Attention::new(
                &mut module,
                ["q_proj", "k_proj", "v_proj"],
                &config.attention(stack),
            ),
            output: config.linear(module.at("out_proj"), heads, width),
            residual: Residual::new(path.at(&format!("{name}_layer_norm")), config),
        }
    }

    fn to_itself(&self, cx: &Forward<'_>, x: &Tensor, scores: &AttentionMask) -> Result<Tensor> {
        self.residual
            .around(cx, x, |x| self.output.forward(cx, &self.attention.forward(cx, x, scores)?))
    }

    fn to_source(&self, cx: &Forward<'_>, x: &Tensor, source: &Source<'_>) -> Result<Tensor> {
        self.residual.around(cx, x, |x| {
            let attended = self.attention.forward_to(cx, x, source.states, source.mask)?;
            self.output.forward(cx, &attended)
        })
    }
}

#[derive(Debug)]
struct FeedForward {
    input: Linear,
    activation: Activation,
    activation_dropout: f64,
    output: Linear,
    residual: Residual,
}

impl FeedForward {
    fn new(path: &mut ParameterPath<'_>, config: &BartConfig, stack: &StackConfig) -> FeedForward {
        let (width, features) = (config.d_model, Dimension::features(stack.ffn_dim));
        FeedForward {
            input: config.linear(path.at("fc1"), width, features),
            activation: config.activation,
            activation_dropout: config.activation_dropout,
            output: config.linear(path.at("fc2"), features, width),
            residual: Residual::new(path.at("final_layer_norm"), config),
        }
    }

    fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        self.residual.around(cx, x, |x| {
            let inner = self.activation.forward(&self.input.forward(cx, &cx.fan_out(x)?)?)?;
            self.output.forward(cx, &dropout_of_features(cx, &inner, self.activation_dropout)?)
        })
    }
}
