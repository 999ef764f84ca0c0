//! T5 (Raffel et al., 2019), as transformers' `T5Model` computes it: norms without means stand
//! before each part of a layer, and a bias of each pair of positions, which all layers of a stack
//! share, takes the place of position embeddings.

mod attention;
mod config;
mod layers;
mod position_bias;

use traind_xla::{DType, Tensor};

pub(crate) use config::T5Config;

use super::{Source, Stacks};
use crate::error::Result;
use crate::flops;
use crate::layers::{AttentionMask, Embedding, RmsNorm, dropout, flatten_tokens};
use crate::model::{Forward, Lengths};
use crate::parameters::{Dimension, ParameterPath, Stage};
use layers::{DecoderLayer, EncoderLayer};
use position_bias::{Direction, PositionBias};

/// The word embeddings, which a head may share.
pub(crate) const WORDS: &str = "shared.weight";
/// Rows may have any length that a batch can have.
pub(crate) const MAX_POSITIONS: usize = i32::MAX as usize;

#[derive(Debug)]
pub(crate) struct T5 {
    config: T5Config,
    words: Embedding,
    encoder: Vec<EncoderLayer>,
    encoder_bias: PositionBias,
    encoder_norm: RmsNorm,
    decoder: Vec<DecoderLayer>,
    decoder_bias: PositionBias,
    decoder_norm: RmsNorm,
}

impl T5 {
    pub(crate) fn new(root: &mut ParameterPath<'_>, config: T5Config) -> T5 {
        let std = config.initializer_factor;
        let vocabulary = Dimension::vocabulary(config.vocab_size);
        let words = root.at("shared").in_stage(Stage::Embeddings);
        let words = Embedding::new(words, vocabulary, config.d_model, std);
        for stack in ["encoder", "decoder"] {
            root.tie_in(WORDS, &format!("{stack}.embed_tokens.weight"), Stage::Embeddings);
        }
        let boundary = config.num_layers;
        let encoder = (0..boundary).map(|layer| {
            let path = root.at(&format!("encoder.block.{layer}"));
            EncoderLayer::new(path.in_stage(Stage::Layer(layer)), &config)
        });
        let encoder = encoder.collect();
        let encoder_bias = PositionBias::new(root, "encoder", Direction::Both, &config);
        let norm = root.at("encoder.final_layer_norm").in_stage(Stage::Layer(boundary - 1));
        let encoder_norm = config.norm(norm);
        let decoder = (0..config.num_decoder_layers).map(|layer| {
            let path = root.at(&format!("decoder.block.{layer}"));
            DecoderLayer::new(path.in_stage(Stage::Layer(boundary + layer)), &config)
        });
        let decoder = decoder.collect();
        let decoder_bias = PositionBias::new(root, "decoder", Direction::Back, &config);
        let decoder_norm = config.norm(root.at("decoder.final_layer_norm"));
        T5 {
            config,
            words,
            encoder,
            encoder_bias,
            encoder_norm,
            decoder,
            decoder_bias,
            decoder_norm,
        }
    }

    fn embed(&self, cx: &Forward<'_>, ids: &Tensor) -> Result<Tensor> {
        let words = flatten_tokens(&self.words.forward(cx, ids)?)?;
        dropout(cx, &words, self.config.dropout_rate)
    }
}

impl Stacks for T5 {
    fn prefix(&self) -> &'static str {
        "transformer"
    }

    fn num_encoder_layers(&self) -> usize {
        self.encoder.len()
    }

    fn num_decoder_layers(&self) -> usize {
        self.decoder.len()
    }

    fn embed_source(&self, cx: &Forward<'_>, ids: &Tensor) -> Result<Tensor> {
        self.embed(cx, ids)
    }

    fn embed_target(&self, cx: &Forward<'_>, ids: &Tensor) -> Result<Tensor> {
        self.embed(cx, ids)
    }

    /// f32[B, N, S, S].
    fn encoder_scores(&self, cx: &Forward<'_>, mask: AttentionMask) -> Result<AttentionMask> {
        let positions = mask.keys();
        let bias = self.encoder_bias.forward(cx, [positions; 2])?;
        Ok(AttentionMask::learned(bias.add(mask.added())?))
    }

    /// f32[B, N, T, T].
    fn decoder_scores(&self, cx: &Forward<'_>, mask: AttentionMask) -> Result<AttentionMask> {
        let keys = mask.keys();
        let bias = match cx.cached_positions() {
            Some(positions) => self.decoder_bias.of_queries(cx, positions, keys)?,
            None => self.decoder_bias.forward(cx, [keys; 2])?,
        };
        Ok(AttentionMask::learned(bias.add(mask.added())?))
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
        dropout(cx, &self.encoder_norm.forward(cx, &x)?, self.config.dropout_rate)
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
        dropout(cx, &self.decoder_norm.forward(cx, &x)?, self.config.dropout_rate)
    }

    fn vocab_size(&self) -> usize {
        self.config.vocab_size
    }

    fn max_positions(&self) -> usize {
        MAX_POSITIONS
    }

    fn forward_flops(&self, lengths: Lengths) -> f64 {
        let Lengths { positions, target_positions } = lengths;
        let T5Config { d_model, .. } = self.config;
        let inner = self.config.heads().size;
        let attention = |queries, keys| flops::attention(queries, keys, d_model, inner);
        let matrices = if self.config.is_gated { 3.0 } else { 2.0 };
        let feed_forward = matrices * flops::dot(d_model as f64, self.config.d_ff as f64);
        let encoder = attention(positions, positions) + positions as f64 * feed_forward;
        let decoder = attention(target_positions, target_positions)
            + attention(target_positions, positions)
            + target_positions as f64 * feed_forward;
        self.encoder.len() as f64 * encoder + self.decoder.len() as f64 * decoder
    }
}

/// `residual` plus what a part of a layer made of it.
fn add(cx: &Forward<'_>, residual: &Tensor, x: &Tensor, rate: f64) -> Result<Tensor> {
    Ok(residual.add(&dropout(cx, x, rate)?.convert(DType::F32)?)?)
}
