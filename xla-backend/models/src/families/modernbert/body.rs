//! Embeddings and layers.

use std::ops::Range;

use traind_xla::{DType, Tensor};

use super::PREFIX;
use super::config::ModernBertConfig;
use crate::error::Result;
use crate::families::rotary_attention::{RotaryAttention, RotaryAttentionConfig};
use crate::flops;
use crate::layers::{
    AttentionMask, ByKind, Embedding, GateNames, GatedMlp, GatedMlpConfig, LayerNorm, RotaryTable,
    add_dropped, check_positions, dropout, flatten_tokens, with_noise, without_padding,
};
use crate::model::{Batch, Body, Forward, HiddenStates, InputSpec, Lengths};
use crate::parameters::{Dimension, ParameterPath, Stage};

#[derive(Debug)]
pub(super) struct ModernBert {
    config: ModernBertConfig,
    words: Embedding,
    embedding_norm: LayerNorm,
    layers: Vec<Layer>,
    norm: LayerNorm,
}

impl ModernBert {
    pub(super) fn new(root: &mut ParameterPath<'_>, config: ModernBertConfig) -> ModernBert {
        let mut path = root.at(PREFIX);
        let mut embeddings = path.at("embeddings").in_stage(Stage::Embeddings);
        let words = Embedding::with_padding(
            embeddings.at("tok_embeddings"),
            Dimension::vocabulary(config.vocab_size),
            config.hidden_size,
            config.inits().input,
            config.pad_token_id,
        );
        let embedding_norm = config.norm(embeddings.at("norm"));
        let layers = path.layers("layers", 0..config.num_hidden_layers(), |path, index| {
            Layer::new(path, index, &config)
        });
        let norm = config.norm(path.at("final_norm"));
        ModernBert { config, words, embedding_norm, layers, norm }
    }
}

impl Body for ModernBert {
    fn prefix(&self) -> &'static str {
        PREFIX
    }

    fn inputs(&self) -> Vec<InputSpec> {
        InputSpec::of_tokens(self.vocab_size(), None)
    }

    fn num_layers(&self) -> usize {
        self.layers.len()
    }

    fn traces_alike(&self, layer: usize, other: usize) -> bool {
        let has_norm = |layer: usize| self.layers[layer].attention_norm.is_some();
        self.config.windows[layer] == self.config.windows[other]
            && self.config.rotaries[layer] == self.config.rotaries[other]
            && has_norm(layer) == has_norm(other)
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        let ids = batch.get("input_ids")?;
        check_positions(ids.dims()[1], self.max_positions())?;
        let words = with_noise(cx, &flatten_tokens(&self.words.forward(cx, ids)?)?)?;
        let normal = self.embedding_norm.forward(cx, &words)?;
        Ok(HiddenStates::of(dropout(cx, &normal, self.config.embedding_dropout)?))
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let present = batch.get("attention_mask")?;
        let ModernBertConfig { windows, rotaries, .. } = &self.config;
        let tables =
            ByKind::new(&rotaries[layers.clone()], |rotary| rotary.table(cx, present, None))?;
        let x = without_padding(cx, batch, &states.last, |cx, packed, x| {
            let masks = ByKind::new(&windows[layers.clone()], |window| {
                Ok(window.mask(cx, present)?.for_reading_padding(batch)?.of_packed(packed))
            })?;
            cx.layers("layer", layers, x, |cx, index, x| {
                let (mask, table) = (masks.get(&windows[index]), tables.get(&rotaries[index]));
                self.layers[index].forward(cx, x, mask, table)
            })
        })?;
        Ok(HiddenStates::of(x))
    }

    fn packs_tokens(&self) -> bool {
        true
    }

    fn leaves_tokens_out(&self) -> bool {
        true
    }

    fn finish(&self, cx: &Forward<'_>, states: &HiddenStates) -> Result<Tensor> {
        self.norm.forward(cx, &states.last)
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

    /// The scores of all pairs are computed, also of those that a window hides.
    fn forward_flops(&self, lengths: Lengths, read: Option<usize>) -> f64 {
        let layer = flops::Layer {
            hidden_size: self.config.hidden_size,
            intermediate_size: self.config.intermediate_size,
            feed_forward_matrices: 3,
            queries_size: self.config.hidden_size,
            keys_size: self.config.hidden_size,
            projects_at_once: true,
        };
        layer.stack(self.layers.len(), lengths.positions, read)
    }
}

/// `ModernBertEncoderLayer`.
#[derive(Debug)]
struct Layer {
    /// None in the first layer, whose input is normalized.
    attention_norm: Option<LayerNorm>,
    attention: RotaryAttention,
    /// The rate at which states of the attention are dropped.
    dropout: f64,
    mlp_norm: LayerNorm,
    mlp: GatedMlp,
}

impl Layer {
    fn new(mut path: ParameterPath<'_>, index: usize, config: &ModernBertConfig) -> Layer {
        let attention_norm = (index > 0).then(|| config.norm(path.at("attn_norm")));
        let (hidden_size, dropout, inits) =
            (config.hidden_size, config.attention_dropout, config.inits());
        let inits = [inits.input, inits.output];
        let attention = RotaryAttentionConfig {
            hidden_size,
            num_heads: config.num_attention_heads,
            head_size: config.head_size(),
            has_biases: config.attention_bias,
            dropout,
            inits,
        };
        let attention = RotaryAttention::new(&mut path.at("attn"), ["Wqkv", "Wo"], &attention);
        let mlp_norm = config.norm(path.at("mlp_norm"));
        let mlp = GatedMlpConfig {
            hidden_size,
            intermediate_size: config.intermediate_size,
            activation: config.hidden_activation,
            biases: [config.mlp_bias; 2],
            dropout: config.mlp_dropout,
            inits,
        };
        let mlp = GatedMlp::new(path.at("mlp"), GateNames::Joined("Wi"), "Wo", &mlp);
        Layer { attention_norm, attention, dropout, mlp_norm, mlp }
    }

    /// f32[T, H] to f32[T, H], or to f32[R, H] of the tokens that are read.
    fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        table: &RotaryTable,
    ) -> Result<Tensor> {
        let normal = match &self.attention_norm {
            Some(norm) => norm.forward(cx, x)?,
            None => x.clone(),
        };
        let attended = self.attention.forward(cx, &normal, mask, table)?;
        let (x, cx) = (&cx.read_tokens(x)?, &cx.behind_attention());
        let x = add_dropped(cx, x, &attended, self.dropout)?;
        let inner = self.mlp.forward(cx, &self.mlp_norm.forward(cx, &x)?)?;
        Ok(x.add(&inner.convert(DType::F32)?)?)
    }
}
