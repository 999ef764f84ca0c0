//! The decoder of Llama and of the families that descend from it: word embeddings,
//! then layers of rotary attention and a gated feed-forward network, each behind a
//! root-mean-square norm. An encoder may have the same layers.
//!
//! B rows, S positions, H `hidden_size`, I `intermediate_size`.

mod attention;
mod config;
mod layer;

use std::ops::Range;

use traind_xla::Tensor;

pub(crate) use config::{DecoderAttentionConfig, DecoderConfig, NormPlacement, QueryNorm};

use crate::error::Result;
use crate::flops;
use crate::layers::{
    ByKind, Embedding, RmsNorm, Rotary, Window, check_positions, flatten_tokens, with_noise,
    within_texts, without_padding,
};
use crate::model::{Batch, Body, Forward, HiddenStates, InputSpec, Lengths};
use crate::parameters::{Dimension, ParameterPath, Stage};
use layer::Layer;

/// The name of the decoder in a model of transformers with a head.
pub(crate) const PREFIX: &str = "model";
/// The word embeddings, which a head may share.
pub(crate) const WORDS: &str = "model.embed_tokens.weight";

#[derive(Debug)]
pub(crate) struct Decoder {
    config: DecoderConfig,
    words: Embedding,
    layers: Vec<Layer>,
    norm: RmsNorm,
}

impl Decoder {
    pub(crate) fn new(root: &mut ParameterPath<'_>, config: DecoderConfig) -> Decoder {
        let mut path = root.at(PREFIX);
        let words = Embedding::with_padding(
            path.at("embed_tokens").in_stage(Stage::Embeddings),
            Dimension::vocabulary(config.vocab_size),
            config.hidden_size,
            config.initializer_range,
            config.pad_token_id,
        );
        let layers = path
            .layers("layers", 0..config.num_hidden_layers(), |path, _| Layer::new(path, &config));
        let norm = config.rms_norm(path.at("norm"), config.hidden_size);
        Decoder { config, words, layers, norm }
    }

    fn embed(&self, cx: &Forward<'_>, ids: &Tensor) -> Result<Tensor> {
        let words = flatten_tokens(&self.words.forward(cx, ids)?)?;
        let scaled = match self.config.embedding_scale {
            None => words,
            Some(scale) => words.mul_scalar(scale)?,
        };
        with_noise(cx, &scaled)
    }
}

impl Body for Decoder {
    fn prefix(&self) -> &'static str {
        PREFIX
    }

    /// `input_ids` and `attention_mask`; where several texts may share a row, `position_ids`. Each
    /// s32[B, S].
    fn inputs(&self) -> Vec<InputSpec> {
        if !self.config.is_causal {
            return InputSpec::of_tokens(self.vocab_size(), None);
        }
        InputSpec::of_texts(self.vocab_size(), None, self.max_positions())
    }

    fn num_layers(&self) -> usize {
        self.layers.len()
    }

    fn traces_alike(&self, layer: usize, other: usize) -> bool {
        self.config.windows[layer] == self.config.windows[other]
            && self.config.rotaries[layer] == self.config.rotaries[other]
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        let ids = batch.get("input_ids")?;
        check_positions(ids.dims()[1], self.max_positions())?;
        Ok(HiddenStates::of(self.embed(cx, ids)?))
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let (present, position_ids) =
            (batch.get("attention_mask")?, batch.optional("position_ids"));
        let DecoderConfig { rotaries, windows, is_causal, .. } = &self.config;
        let tables = ByKind::new(&rotaries[layers.clone()], |rotary| {
            let table = |rotary: &Rotary| rotary.table(cx, present, position_ids);
            rotary.as_ref().map(table).transpose()
        })?;
        let x = without_padding(cx, batch, &states.last, |cx, packed, x| {
            let masks = ByKind::new(&windows[layers.clone()], |window| {
                let window = if *is_causal { Window::Causal(*window) } else { Window::All };
                let mask = within_texts(window.mask(cx, present)?, position_ids)?;
                Ok(mask.of_packed(packed))
            })?;
            cx.layers("layer", layers, x, |cx, index, x| {
                let (mask, table) = (masks.get(&windows[index]), tables.get(&rotaries[index]));
                self.layers[index].forward(cx, x, mask, table.as_ref())
            })
        })?;
        Ok(HiddenStates::of(x))
    }

    fn finish(&self, cx: &Forward<'_>, states: &HiddenStates) -> Result<Tensor> {
        self.norm.forward(cx, &states.last)
    }

    fn is_generative(&self) -> bool {
        self.config.is_causal
    }

    fn packs_tokens(&self) -> bool {
        true
    }

    fn attends_packed_tokens(&self) -> bool {
        self.config.attention.score_cap.is_none()
    }

    fn rereads_beyond(&self) -> Option<usize> {
        self.config.rereads_beyond
    }

    fn is_tensor_parallel(&self) -> bool {
        true
    }

    fn vocab_size(&self) -> usize {
        self.config.vocab_size
    }

    fn max_positions(&self) -> usize {
        self.config.max_position_embeddings
    }

    fn leaves_tokens_out(&self) -> bool {
        true
    }

    fn forward_flops(&self, lengths: Lengths, read: Option<usize>) -> f64 {
        let attention = &self.config.attention;
        let layer = flops::Layer {
            hidden_size: self.config.hidden_size,
            intermediate_size: self.config.intermediate_size,
            feed_forward_matrices: 3,
            queries_size: attention.num_attention_heads * attention.head_dim,
            keys_size: attention.num_key_value_heads * attention.head_dim,
            projects_at_once: self.config.fused_projections,
        };
        layer.stack(self.layers.len(), lengths.positions, read)
    }
}
