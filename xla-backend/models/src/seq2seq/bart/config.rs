//! `BartConfig`, resolved: transformers' defaults where the file is silent.

use crate::layers::{Activation, AttentionConfig, LayerNorm, Linear};
use crate::parameters::{Dimension, ParameterPath};

const LAYER_NORM_EPS: f64 = 1e-5;

#[derive(Clone, Debug)]
pub(crate) struct BartConfig {
    pub vocab_size: usize,
    pub d_model: usize,
    pub max_position_embeddings: usize,
    pub encoder: StackConfig,
    pub decoder: StackConfig,
    pub activation: Activation,
    pub dropout: f64,
    pub attention_dropout: f64,
    pub activation_dropout: f64,
    pub init_std: f64,
    /// Whether word embeddings are multiplied with the root of `d_model`.
    pub scale_embedding: bool,
    pub pad_token_id: Option<usize>,
    /// Whether norms stand before the parts of a layer rather than behind.
    pub normalizes_before: bool,
}

/// One of both stacks.
#[derive(Clone, Debug)]
pub(crate) struct StackConfig {
    pub layers: usize,
    pub ffn_dim: usize,
    pub attention_heads: usize,
}

impl BartConfig {
    pub(super) fn attention(&self, stack: &StackConfig) -> AttentionConfig {
        AttentionConfig {
            hidden_size: self.d_model,
            num_heads: stack.attention_heads,
            dropout: self.attention_dropout,
            initializer_range: self.init_std,
        }
    }

    pub(super) fn linear(
        &self,
        path: ParameterPath<'_>,
        inputs: impl Into<Dimension>,
        outputs: impl Into<Dimension>,
    ) -> Linear {
        Linear::new(path, inputs, outputs, self.init_std)
    }

    pub(super) fn layer_norm(&self, path: ParameterPath<'_>) -> LayerNorm {
        LayerNorm::new(path, self.d_model, LAYER_NORM_EPS)
    }
}
