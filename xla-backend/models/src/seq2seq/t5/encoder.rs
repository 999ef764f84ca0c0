//! The encoder of T5, which reads sources, and alone the texts that a model embeds (`T5EncoderModel`).

use std::ops::Range;

use traind_xla::Tensor;

use super::layers::EncoderLayer;
use super::{MAX_POSITIONS, T5Config, WORDS, position_bias};
use crate::error::Result;
use crate::flops;
use crate::layers::{
    AttentionMask, Direction, Embedding, PositionBias, RmsNorm, Window, dropout, flatten_tokens,
};
use crate::model::{Batch, Body, Forward, HiddenStates, InputSpec, Lengths};
use crate::parameters::{Dimension, ParameterPath, Stage};

const IDS: &str = "input_ids";
const MASK: &str = "attention_mask";

#[derive(Debug)]
pub(crate) struct T5Encoder {
    pub(super) config: T5Config,
    words: Embedding,
    pub(super) layers: Vec<EncoderLayer>,
    bias: PositionBias,
    norm: RmsNorm,
}

impl T5Encoder {
    /// Declares the parameters of the encoder. Those of word embeddings are shared by `stacks`.
    pub(crate) fn new(
        root: &mut ParameterPath<'_>,
        config: T5Config,
        stacks: &[&str],
    ) -> T5Encoder {
        let std = config.initializer_factor;
        let vocabulary = Dimension::vocabulary(config.vocab_size);
        let words = root.at("shared").in_stage(Stage::Embeddings);
        let words = Embedding::new(words, vocabulary, config.d_model, std);
        for stack in stacks {
            root.tie_in(WORDS, &format!("{stack}.embed_tokens.weight"), Stage::Embeddings);
        }
        let layers = root.layers("encoder.block", 0..config.num_layers, |path, _| {
            EncoderLayer::new(path, &config)
        });
        let bias = position_bias(root, "encoder", Direction::Both, &config);
        let last = Stage::Layer(config.num_layers - 1);
        let norm = config.norm(root.at("encoder.final_layer_norm").in_stage(last));
        T5Encoder { config, words, layers, bias, norm }
    }

    /// Ids s32[B, S] to f32[B S, H].
    pub(super) fn embed(&self, cx: &Forward<'_>, ids: &Tensor) -> Result<Tensor> {
        let words = flatten_tokens(&self.words.forward(cx, ids)?)?;
        dropout(cx, &words, self.config.dropout_rate)
    }

    /// f32[B, N, S, S].
    pub(super) fn scores(&self, cx: &Forward<'_>, mask: AttentionMask) -> Result<AttentionMask> {
        let positions = mask.keys();
        let bias = self.bias.forward(cx, [positions; 2])?;
        mask.with_learned(&bias)
    }

    pub(super) fn end(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        dropout(cx, &self.norm.forward(cx, x)?, self.config.dropout_rate)
    }

    /// Floating-point operations of a row with so many positions.
    pub(super) fn flops(&self, positions: usize) -> f64 {
        let attention = self.config.attention_flops(positions, positions);
        self.layers.len() as f64 * (attention + positions as f64 * self.config.feed_forward_flops())
    }
}

impl T5Config {
    pub(super) fn attention_flops(&self, queries: usize, keys: usize) -> f64 {
        flops::attention(queries, keys, self.d_model, self.heads().size)
    }

    /// Floating-point operations of a token.
    pub(super) fn feed_forward_flops(&self) -> f64 {
        let matrices = if self.is_gated { 3.0 } else { 2.0 };
        matrices * flops::dot(self.d_model as f64, self.d_ff as f64)
    }
}

impl Body for T5Encoder {
    fn prefix(&self) -> &'static str {
        "transformer"
    }

    fn inputs(&self) -> Vec<InputSpec> {
        InputSpec::of_tokens(self.vocab_size(), None)
    }

    fn num_layers(&self) -> usize {
        self.layers.len()
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        Ok(HiddenStates::of(self.embed(cx, batch.get(IDS)?)?))
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let scores = self.scores(cx, Window::All.mask(cx, batch.get(MASK)?)?)?;
        let x = cx.layers("layer", layers, states.last, |cx, index, x| {
            self.layers[index].forward(cx, x, &scores)
        })?;
        Ok(HiddenStates::of(x))
    }

    fn finish(&self, cx: &Forward<'_>, states: &HiddenStates) -> Result<Tensor> {
        self.end(cx, &states.last)
    }

    fn is_tensor_parallel(&self) -> bool {
        true
    }

    fn vocab_size(&self) -> usize {
        self.config.vocab_size
    }

    fn max_positions(&self) -> usize {
        MAX_POSITIONS
    }

    fn forward_flops(&self, lengths: Lengths, _read: Option<usize>) -> f64 {
        self.flops(lengths.positions)
    }
}
