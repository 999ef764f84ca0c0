//! T5 (Raffel et al., 2019), as transformers' `T5Model` computes it: norms without means stand
//! before each part of a layer, and a bias of each pair of positions, which all layers of a stack
//! share, takes the place of position embeddings.

mod attention;
mod config;
mod encoder;
mod layers;

use traind_xla::Tensor;

pub(crate) use config::T5Config;
pub(crate) use encoder::T5Encoder;

use super::{Source, Stacks};
use crate::error::Result;
use crate::layers::{AttentionMask, Buckets, Direction, PositionBias, RmsNorm, dropout};
use crate::model::{Forward, Lengths};
use crate::parameters::{ParameterPath, Stage};
use layers::DecoderLayer;

/// The word embeddings, which a head may share.
pub(crate) const WORDS: &str = "shared.weight";
/// Rows may have any length that a batch can have.
pub(crate) const MAX_POSITIONS: usize = i32::MAX as usize;

#[derive(Debug)]
pub(crate) struct T5 {
    config: T5Config,
    encoder: T5Encoder,
    decoder: Vec<DecoderLayer>,
    decoder_bias: PositionBias,
    decoder_norm: RmsNorm,
}

impl T5 {
    pub(crate) fn new(root: &mut ParameterPath<'_>, config: T5Config) -> T5 {
        let encoder = T5Encoder::new(root, config.clone(), &["encoder", "decoder"]);
        let boundary = config.num_layers;
        let layers = boundary..boundary + config.num_decoder_layers;
        let decoder =
            root.layers("decoder.block", layers, |path, _| DecoderLayer::new(path, &config));
        let decoder_bias = position_bias(root, "decoder", Direction::Back, &config);
        let decoder_norm = config.norm(root.at("decoder.final_layer_norm"));
        T5 { config, encoder, decoder, decoder_bias, decoder_norm }
    }
}

impl Stacks for T5 {
    fn prefix(&self) -> &'static str {
        "transformer"
    }

    fn num_encoder_layers(&self) -> usize {
        self.encoder.layers.len()
    }

    fn num_decoder_layers(&self) -> usize {
        self.decoder.len()
    }

    fn embed_source(&self, cx: &Forward<'_>, ids: &Tensor) -> Result<Tensor> {
        self.encoder.embed(cx, ids)
    }

    fn embed_target(&self, cx: &Forward<'_>, ids: &Tensor) -> Result<Tensor> {
        self.encoder.embed(cx, ids)
    }

    /// f32[B, N, S, S].
    fn encoder_scores(&self, cx: &Forward<'_>, mask: AttentionMask) -> Result<AttentionMask> {
        self.encoder.scores(cx, mask)
    }

    /// f32[B, N, T, T].
    fn decoder_scores(&self, cx: &Forward<'_>, mask: AttentionMask) -> Result<AttentionMask> {
        let keys = mask.keys();
        let bias = match cx.cached_positions() {
            Some(positions) => self.decoder_bias.of_queries(cx, positions, keys)?,
            None => self.decoder_bias.forward(cx, [keys; 2])?,
        };
        mask.with_learned(&bias)
    }

    fn encoder_layer(
        &self,
        cx: &Forward<'_>,
        layer: usize,
        x: &Tensor,
        scores: &AttentionMask,
    ) -> Result<Tensor> {
        self.encoder.layers[layer].forward(cx, x, scores)
    }

    fn finish_encoder(&self, cx: &Forward<'_>, x: Tensor) -> Result<Tensor> {
        self.encoder.end(cx, &x)
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
        let Lengths { positions, target_positions, .. } = lengths;
        let attention = |queries, keys| self.config.attention_flops(queries, keys);
        let decoder = attention(target_positions, target_positions)
            + attention(target_positions, positions)
            + target_positions as f64 * self.config.feed_forward_flops();
        self.encoder.flops(positions) + self.decoder.len() as f64 * decoder
    }
}

/// The bias of the first layer of a stack, which all its layers read.
fn position_bias(
    root: &mut ParameterPath<'_>,
    stack: &str,
    direction: Direction,
    config: &T5Config,
) -> PositionBias {
    let (first, layers) = match direction {
        Direction::Both => (0, config.num_layers),
        Direction::Back => (config.num_layers, config.num_decoder_layers),
    };
    let count = config.relative_attention_num_buckets;
    let distance_max = config.relative_attention_max_distance;
    let module = format!("{stack}.block.0.layer.0.SelfAttention.relative_attention_bias");
    let mut path = root.at(&module).in_stage(Stage::Layer(first));
    let buckets = Buckets { direction, count, distance_max };
    let dims = [count, config.num_heads];
    let bias = PositionBias::new(path.at(""), dims, config.std(config.d_model), buckets);
    path.share_in((first..first + layers).map(Stage::Layer));
    bias
}
