//! Embeddings and layers.

use std::ops::Range;

use traind_xla::{DType, Tensor};

use super::config::RotaryBertConfig;
use crate::error::Result;
use crate::families::rotary_attention::{RotaryAttention, RotaryAttentionConfig};
use crate::flops;
use crate::layers::{
    AttentionMask, Embedding, GatedMlp, GatedMlpConfig, LayerNorm, RotaryTable, Window,
    check_positions, dropout, flatten_tokens, with_noise, without_padding,
};
use crate::model::{Batch, Body, Forward, HiddenStates, InputSpec, Lengths};
use crate::parameters::{Dimension, ParameterPath, Stage};

#[derive(Debug)]
pub(super) struct RotaryBert {
    config: RotaryBertConfig,
    words: Embedding,
    segments: Option<Embedding>,
    embedding_norm: LayerNorm,
    layers: Vec<Layer>,
}

impl RotaryBert {
    pub(super) fn new(root: &mut ParameterPath<'_>, config: RotaryBertConfig) -> RotaryBert {
        let mut path = root.at(config.prefix);
        let (hidden, std) = (config.hidden_size, config.initializer_range);
        let mut embeddings = path.at("embeddings").in_stage(Stage::Embeddings);
        let vocabulary = Dimension::vocabulary(config.vocab_size);
        let words = embeddings.at("word_embeddings");
        let words = Embedding::with_padding(words, vocabulary, hidden, std, config.pad_token_id);
        let segments = config
            .type_vocab_size
            .map(|rows| Embedding::new(embeddings.at("token_type_embeddings"), rows, hidden, std));
        let embedding_norm = path.at(config.names.embedding_norm).in_stage(Stage::Embeddings);
        let embedding_norm = config.norm(embedding_norm);
        let layers = path.layers(config.names.layers, 0..config.num_hidden_layers, |path, _| {
            Layer::new(path, &config)
        });
        RotaryBert { config, words, segments, embedding_norm, layers }
    }
}

impl Body for RotaryBert {
    fn prefix(&self) -> &'static str {
        self.config.prefix
    }

    fn inputs(&self) -> Vec<InputSpec> {
        InputSpec::of_tokens(self.vocab_size(), self.config.type_vocab_size)
    }

    fn num_layers(&self) -> usize {
        self.layers.len()
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        let ids = batch.get("input_ids")?;
        check_positions(ids.dims()[1], self.max_positions())?;
        let mut sum = with_noise(cx, &self.words.forward(cx, ids)?)?;
        if let Some(segments) = &self.segments {
            sum = sum.add(&match batch.optional("token_type_ids") {
                Some(ids) => segments.forward(cx, ids)?,
                None => segments.first_row(cx)?,
            })?;
        }
        let normal = self.embedding_norm.forward(cx, &flatten_tokens(&sum)?)?;
        Ok(HiddenStates::of(dropout(cx, &normal, self.config.hidden_dropout)?))
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let present = batch.get("attention_mask")?;
        let table = self.config.rotary.table(cx, present, None)?;
        let x = without_padding(cx, batch, &states.last, |cx, packed, x| {
            let mask = Window::All.mask(cx, present)?.of_packed(packed);
            cx.layers("layer", layers, x, |cx, index, x| {
                self.layers[index].forward(cx, x, &mask, &table)
            })
        })?;
        Ok(HiddenStates::of(x))
    }

    fn packs_tokens(&self) -> bool {
        true
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
        let width = self.config.num_attention_heads * self.config.head_dim;
        let layer = flops::Layer {
            hidden_size: self.config.hidden_size,
            intermediate_size: self.config.intermediate_size,
            feed_forward_matrices: 3,
            queries_size: width,
            keys_size: width,
            projects_at_once: true,
        };
        layer.stack(self.layers.len(), lengths.positions, read)
    }
}

/// `NomicBertLayer` and `GteLayer`.
#[derive(Debug)]
struct Layer {
    attention: RotaryAttention,
    attention_norm: LayerNorm,
    mlp: GatedMlp,
    mlp_norm: LayerNorm,
    dropout: f64,
}

impl Layer {
    fn new(mut path: ParameterPath<'_>, config: &RotaryBertConfig) -> Layer {
        let (hidden_size, init) = (config.hidden_size, config.initializer_range.into());
        let names = config.names;
        let attention_norm = config.norm(path.at(names.norms[0]));
        let mlp = GatedMlpConfig {
            hidden_size,
            intermediate_size: config.intermediate_size,
            activation: config.hidden_act,
            biases: [false, config.has_biases],
            dropout: config.mlp_dropout,
            inits: [init; 2],
        };
        let mlp = GatedMlp::new(path.at("mlp"), names.gate, names.down, &mlp);
        let mlp_norm = config.norm(path.at(names.norms[1]));
        let attention = RotaryAttentionConfig {
            hidden_size,
            num_heads: config.num_attention_heads,
            head_size: config.head_dim,
            has_biases: config.has_biases,
            dropout: config.attention_dropout,
            inits: [init; 2],
        };
        let matrices = [names.projections, names.output];
        let attention = RotaryAttention::new(&mut path.at(names.attention), matrices, &attention);
        Layer { attention, attention_norm, mlp, mlp_norm, dropout: config.hidden_dropout }
    }

    /// `x` [T, H] to [T, H], or to [R, H] of the tokens that are read.
    fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        table: &RotaryTable,
    ) -> Result<Tensor> {
        let attended = self.attention.forward(cx, x, mask, table)?.convert(DType::F32)?;
        let (x, cx) = (&cx.read_tokens(x)?, &cx.behind_attention());
        let x = self.attention_norm.forward_sum(cx, &attended, x, self.dropout)?;
        let inner = self.mlp.forward(cx, &x)?;
        self.mlp_norm.forward_sum(cx, &inner, &x, self.dropout)
    }
}
