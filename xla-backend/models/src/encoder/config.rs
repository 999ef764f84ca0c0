//! The differences between the encoders of families: names and settings.

use crate::layers::{
    Activation, AttentionConfig, Buckets, DisentangledConfig, LayerNorm, Linear, ProjectionNames,
    Rotary,
};
use crate::parameters::{Dimension, ParameterPath};

/// Names of the parts: of the encoder itself, of the norm of its embeddings, of its list of layers or of groups of
/// them, and of what is in a layer.
#[derive(Debug)]
pub(crate) struct EncoderNames {
    pub prefix: &'static str,
    pub embedding_norm: &'static str,
    pub layers: &'static str,
    /// Names of the projections to queries, keys and values, which attention by distances has apart.
    pub projections: ProjectionNames,
    pub attention_output: &'static str,
    /// The norm behind the attention, or before it, see [`EncoderConfig::last_norm`].
    pub attention_norm: &'static str,
    pub intermediate: &'static str,
    pub output: &'static str,
    /// The norm behind the feed-forward network, or before it.
    pub output_norm: &'static str,
}

/// A config, resolved: transformers' defaults where the file is silent.
#[derive(Clone, Debug)]
pub(crate) struct EncoderConfig {
    pub vocab_size: usize,
    /// The width of the embeddings.
    pub embedding_size: usize,
    /// The name of the layer that projects embeddings to the hidden size, where there is one.
    pub embedding_projection: Option<&'static str>,
    pub num_hidden_layers: usize,
    pub intermediate_size: usize,
    pub hidden_act: Activation,
    pub embedding_dropout: f64,
    pub attention_output_dropout: f64,
    pub output_dropout: f64,
    pub layer_norm_eps: f64,
    pub pad_token_id: Option<usize>,
    pub positions: Positions,
    /// `None` where the family has no segments.
    pub type_vocab_size: Option<usize>,
    /// Whether a token sees none behind itself.
    pub is_decoder: bool,
    /// The table of the bias that scores have by distance, where there is one.
    pub position_bias: Option<PositionBiasTable>,
    /// How layers share parameters; `None` where each has its own.
    pub shared_layers: Option<SharedLayers>,
    pub attention: AttentionConfig,
    /// The terms of scores by distance, in DeBERTa. Its embeddings add positions before segments, and are zeros for
    /// padding.
    pub disentangled: Option<DisentangledConfig>,
    /// The name of the norm behind the last layer, where layers normalize before their parts and not after them. Such
    /// families do not normalize embeddings.
    pub last_norm: Option<&'static str>,
    /// The angles by which queries and keys turn with their positions, where they do.
    pub rotary: Option<Rotary>,
}

/// The table of a bias by distance, which all layers read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PositionBiasTable {
    pub name: &'static str,
    pub rows: usize,
    pub buckets: Buckets,
}

/// Groups of layers, each of which is repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedLayers {
    pub groups: usize,
    /// Layers of a group.
    pub inner: usize,
    /// The name of the layers in a group.
    pub name: &'static str,
}

impl SharedLayers {
    /// The group and the inner layer that the layer `index` of `count` is.
    pub(super) fn of_layer(self, index: usize, count: usize) -> [usize; 2] {
        let repeats = count / self.inner;
        [index / self.inner * self.groups / repeats, index % self.inner]
    }
}

/// The rows of the position table that tokens take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Positions {
    /// Token i of a row has position i. A `sinusoidal` table begins with sines and cosines, and is
    /// trained as others are.
    FromZero { rows: usize, sinusoidal: bool },
    /// Token i of those that are not `padding_id` has position
    /// `padding_id` + 1 + i, and padding has position `padding_id`.
    AfterPadding { rows: usize, padding_id: usize },
    /// There is no table, and rows have at most so many tokens.
    Absent { longest_row: usize },
}

impl Positions {
    /// Rows of the table.
    pub(crate) fn rows(self) -> usize {
        match self {
            Positions::FromZero { rows, .. } | Positions::AfterPadding { rows, .. } => rows,
            Positions::Absent { .. } => 0,
        }
    }

    pub(crate) fn longest_row(self) -> usize {
        match self {
            Positions::FromZero { rows, .. } => rows,
            Positions::AfterPadding { rows, padding_id } => rows.saturating_sub(padding_id + 1),
            Positions::Absent { longest_row } => longest_row,
        }
    }
}

impl EncoderConfig {
    pub(crate) fn hidden_size(&self) -> usize {
        self.attention.hidden_size
    }

    /// The standard deviation of drawn weights.
    pub(crate) fn std(&self) -> f64 {
        self.attention.initializer_range
    }

    /// The attention's width, divided by whole heads.
    pub(crate) fn heads(&self) -> Dimension {
        Dimension::heads(self.hidden_size(), self.attention.num_heads, 1)
    }

    pub(crate) fn linear(
        &self,
        path: ParameterPath<'_>,
        inputs: impl Into<Dimension>,
        outputs: impl Into<Dimension>,
    ) -> Linear {
        Linear::new(path, inputs, outputs, self.std())
    }

    pub(crate) fn layer_norm(&self, path: ParameterPath<'_>) -> LayerNorm {
        LayerNorm::new(path, self.hidden_size(), self.layer_norm_eps)
    }
}
