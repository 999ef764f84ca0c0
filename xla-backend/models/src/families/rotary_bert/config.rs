//! Reads the config of such an encoder.

use super::{LayerNames, RotaryBertFamily};
use crate::config::ModelConfig;
use crate::error::Result;
use crate::layers::{Activation, LayerNorm, Rotary, check_heads};
use crate::parameters::ParameterPath;
use crate::rope;

/// A config, resolved: transformers' defaults where the file is silent.
#[derive(Clone, Debug)]
pub(super) struct RotaryBertConfig {
    pub prefix: &'static str,
    pub names: LayerNames,
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub head_dim: usize,
    pub intermediate_size: usize,
    pub hidden_act: Activation,
    pub hidden_dropout: f64,
    pub mlp_dropout: f64,
    pub attention_dropout: f64,
    pub max_position_embeddings: usize,
    /// None where tokens have no segments.
    pub type_vocab_size: Option<usize>,
    pub initializer_range: f64,
    pub layer_norm_eps: f64,
    pub pad_token_id: Option<usize>,
    pub classifier_dropout: f64,
    pub rotary: Rotary,
    pub has_biases: bool,
}

impl RotaryBertConfig {
    pub(super) fn resolve(
        family: &RotaryBertFamily,
        config: &ModelConfig,
    ) -> Result<RotaryBertConfig> {
        let defaults = family.defaults;
        let vocab_size = config.size_or("vocab_size", defaults.vocab_size)?;
        let hidden_size = config.size_or("hidden_size", 768)?;
        let num_attention_heads = config.size_or("num_attention_heads", 12)?;
        let head_dim = match config.optional_size("head_dim")? {
            Some(head_dim) => head_dim,
            None => {
                check_heads(config, "num_attention_heads", num_attention_heads, hidden_size)?;
                hidden_size / num_attention_heads
            }
        };
        let hidden_dropout = config.dropout_or("hidden_dropout_prob", defaults.hidden_dropout)?;
        Ok(RotaryBertConfig {
            prefix: family.prefix,
            names: family.names,
            vocab_size,
            hidden_size,
            num_hidden_layers: config.size_or("num_hidden_layers", 12)?,
            num_attention_heads,
            head_dim,
            intermediate_size: config.size_or("intermediate_size", 3072)?,
            hidden_act: Activation::from_config(config, "hidden_act", defaults.hidden_act)?,
            hidden_dropout,
            mlp_dropout: if family.drops_features { hidden_dropout } else { 0.0 },
            attention_dropout: config.dropout_or("attention_probs_dropout_prob", 0.0)?,
            max_position_embeddings: config
                .computed_positions_or(defaults.max_position_embeddings)?,
            type_vocab_size: match config.keys().contains_key("type_vocab_size") {
                true => config.size_above_zero("type_vocab_size")?,
                false => Some(defaults.type_vocab_size),
            },
            initializer_range: config.positive_or("initializer_range", 0.02)?,
            layer_norm_eps: config.positive_or("layer_norm_eps", 1e-12)?,
            pad_token_id: config.token_id_or("pad_token_id", vocab_size, defaults.pad_token_id)?,
            classifier_dropout: config.dropout_or("classifier_dropout", hidden_dropout)?,
            rotary: rope::resolve(config, head_dim, defaults.theta)?,
            has_biases: family.has_biases,
        })
    }

    pub(super) fn norm(&self, path: ParameterPath<'_>) -> LayerNorm {
        LayerNorm::new(path, self.hidden_size, self.layer_norm_eps)
    }
}
