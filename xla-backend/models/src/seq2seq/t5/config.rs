//! `T5Config`, resolved: transformers' defaults where the file is silent.

use crate::layers::{Activation, RmsNorm, Scale};
use crate::parameters::{Dimension, ParameterPath};

#[derive(Clone, Debug)]
pub(crate) struct T5Config {
    pub vocab_size: usize,
    pub d_model: usize,
    /// The width of a head; all of them together need not be as wide as `d_model`.
    pub d_kv: usize,
    pub d_ff: usize,
    pub num_layers: usize,
    pub num_decoder_layers: usize,
    pub num_heads: usize,
    pub relative_attention_num_buckets: usize,
    pub relative_attention_max_distance: usize,
    pub dropout_rate: f64,
    pub layer_norm_epsilon: f64,
    pub initializer_factor: f64,
    pub activation: Activation,
    /// Whether the feed-forward network multiplies its activation with a second projection.
    pub is_gated: bool,
}

impl T5Config {
    /// The joined width of all heads.
    pub(super) fn heads(&self) -> Dimension {
        Dimension::heads(self.num_heads * self.d_kv, self.num_heads, 1)
    }

    pub(super) fn norm(&self, path: ParameterPath<'_>) -> RmsNorm {
        RmsNorm::new(path, self.d_model, self.layer_norm_epsilon, Scale::Weight)
    }

    /// The standard deviation of the weights of a layer of so many inputs.
    pub(super) fn std(&self, inputs: usize) -> f64 {
        self.initializer_factor * (inputs as f64).powf(-0.5)
    }
}
