//! BART (Lewis et al., 2019), as transformers' `BartModel` computes it, and mBART (Liu et al.,
//! 2020), whose norms stand before each part of a layer and once more behind each stack.

mod config;
mod layers;

use traind_xla::Tensor;

pub(crate) use config::{BartConfig, StackConfig};

use super::{Source, Stacks};
use crate::error::Result;
use crate::flops;
use crate::layers::{
    AttentionMask, Embedding, LayerNorm, PositionEmbedding, dropout, flatten_tokens,
};
use crate::model::{Forward, Lengths};
use crate::parameters::{Dimension, ParameterPath, Stage};
use layers::{DecoderLayer, EncoderLayer};

/// The name of both stacks in a model of transformers with a head.
const PREFIX: &str = "model";
/// The word embeddings, which a head may share.
pub(crate) const WORDS: &str = "model.shared.weight";
/// Rows of the table of positions before that of the first position.
const POSITION_OFFSET: usize = 2;

#[derive(Debug)]
pub(crate) struct Bart {
    config: BartConfig,
    words: Embedding,
    encoder_embeddings: Embeddings,
    encoder: Vec<EncoderLayer>,
    encoder_norm: Option<LayerNorm>,
    decoder_embeddings: Embeddings,
    decoder: Vec<DecoderLayer>,
    decoder_norm: Option<LayerNorm>,
}

/// The parts of a stack's embeddings that are its own.
#[derive(Debug)]
struct Embeddings {
    positions: PositionEmbedding,
    norm: LayerNorm,
}

impl Bart {
    pub(crate) fn new(root: &mut ParameterPath<'_>, config: BartConfig) -> Bart {
        let words = Embedding::with_padding(
            root.at(PREFIX).at("shared").in_stage(Stage::Embeddings),
            Dimension::vocabulary(config.vocab_size),
            config.d_model,
            config.init_std,
            config.pad_token_id,
        );
        for stack in ["encoder", "decoder"] {
            let alias = format!("{PREFIX}.{stack}.embed_tokens.weight");
            root.tie_in(WORDS, &alias, Stage::Embeddings);
        }
        let mut path = root.at(PREFIX);
        let boundary = config.encoder.layers;
        let encoder_embeddings = Embeddings::new(path.at("encoder"), &config);
        let encoder =
            path.layers("encoder.layers", 0..boundary, |path, _| EncoderLayer::new(path, &config));
        let norm_behind =
            |path: ParameterPath<'_>| config.normalizes_before.then(|| config.layer_norm(path));
        let stage = Stage::Layer(boundary - 1);
        let encoder_norm = norm_behind(path.at("encoder.layer_norm").in_stage(stage));
        let decoder_embeddings = Embeddings::new(path.at("decoder"), &config);
        let layers = boundary..boundary + config.decoder.layers;
        let decoder =
            path.layers("decoder.layers", layers, |path, _| DecoderLayer::new(path, &config));
        let decoder_norm = norm_behind(path.at("decoder.layer_norm"));
        Bart {
            config,
            words,
            encoder_embeddings,
            encoder,
            encoder_norm,
            decoder_embeddings,
            decoder,
            decoder_norm,
        }
    }

    fn embed(&self, cx: &Forward<'_>, own: &Embeddings, ids: &Tensor) -> Result<Tensor> {
        let mut words = self.words.forward(cx, ids)?;
        if self.config.scale_embedding {
            words = words.mul_scalar((self.config.d_model as f64).sqrt())?;
        }
        let positions = ids.dims().last().copied().unwrap_or_default();
        let sum = words.add(&own.positions.forward(cx, positions)?)?;
        dropout(cx, &own.norm.forward(cx, &flatten_tokens(&sum)?)?, self.config.dropout)
    }
}

impl Embeddings {
    fn new(path: ParameterPath<'_>, config: &BartConfig) -> Embeddings {
        let mut path = path.in_stage(Stage::Embeddings);
        let positions = PositionEmbedding::with_offset(
            path.at("embed_positions"),
            config.max_position_embeddings,
            config.d_model,
            config.init_std,
            POSITION_OFFSET,
        );
        Embeddings { positions, norm: config.layer_norm(path.at("layernorm_embedding")) }
    }
}

impl Stacks for Bart {
    fn prefix(&self) -> &'static str {
        PREFIX
    }

    fn num_encoder_layers(&self) -> usize {
        self.encoder.len()
    }

    fn num_decoder_layers(&self) -> usize {
        self.decoder.len()
    }

    fn embed_source(&self, cx: &Forward<'_>, ids: &Tensor) -> Result<Tensor> {
        self.embed(cx, &self.encoder_embeddings, ids)
    }

    fn embed_target(&self, cx: &Forward<'_>, ids: &Tensor) -> Result<Tensor> {
        self.embed(cx, &self.decoder_embeddings, ids)
    }

    fn encoder_layer(
        &self,
        cx: &Forward<'_>,
        layer: usize,
        x: &Tensor,
        scores: &AttentionMask,
    ) -> Result<Tensor> {
        self.encoder[layer].forward(cx, x, scores)
    }

    fn finish_encoder(&self, cx: &Forward<'_>, x: Tensor) -> Result<Tensor> {
        match &self.encoder_norm {
            Some(norm) => norm.forward(cx, &x),
            None => Ok(x),
        }
    }

    fn decoder_layer(
        &self,
        cx: &Forward<'_>,
        layer: usize,
        x: &Tensor,
        source: &Source<'_>,
        scores: &AttentionMask,
    ) -> Result<Tensor> {
        self.decoder[layer].forward(cx, x, source, scores)
    }

    fn finish_decoder(&self, cx: &Forward<'_>, x: Tensor) -> Result<Tensor> {
        match &self.decoder_norm {
            Some(norm) => norm.forward(cx, &x),
            None => Ok(x),
        }
    }

    fn vocab_size(&self) -> usize {
        self.config.vocab_size
    }

    fn max_positions(&self) -> usize {
        self.config.max_position_embeddings
    }

    fn forward_flops(&self, lengths: Lengths) -> f64 {
        let Lengths { positions, target_positions, .. } = lengths;
        let width = self.config.d_model;
        let attention = |queries, keys| flops::attention(queries, keys, width, width);
        let feed_forward = |stack: &StackConfig, positions: usize| {
            positions as f64 * 2.0 * flops::dot(width as f64, stack.ffn_dim as f64)
        };
        let (encoder, decoder) = (&self.config.encoder, &self.config.decoder);
        let of_encoder = attention(positions, positions) + feed_forward(encoder, positions);
        let of_decoder = attention(target_positions, target_positions)
            + attention(target_positions, positions)
            + feed_forward(decoder, target_positions);
        encoder.layers as f64 * of_encoder + decoder.layers as f64 * of_decoder
    }
}
