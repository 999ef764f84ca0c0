//! The differences between the families of decoders.

use crate::config::ModelConfig;
use crate::error::Result;
use crate::heads::LogitsTransform;
use crate::layers::{
    Activation, DividedRmsNorm, GateNames, GatedMlp, GatedMlpConfig, HeadCounts, RmsNorm, Rotary,
    Scale,
};
use crate::parameters::ParameterPath;

/// A config, resolved: transformers' defaults where the file is silent.
#[derive(Clone, Debug)]
pub(crate) struct DecoderConfig {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub max_position_embeddings: usize,
    pub hidden_act: Activation,
    pub mlp_bias: bool,
    /// Whether queries, keys and values are one matrix, and gate and up another.
    pub fused_projections: bool,
    pub attention: DecoderAttentionConfig,
    pub norm_scale: Scale,
    pub rms_norm_eps: f64,
    /// The factor of the word embeddings, where there is one.
    pub embedding_scale: Option<f64>,
    pub residual_dropout: f64,
    /// The factor of the outputs of attention and feed-forward network, where there is one.
    pub residual_scale: Option<f64>,
    pub norms: NormPlacement,
    /// The rotary embedding of each layer; `None` for layers without positions.
    pub rotaries: Vec<Option<Rotary>>,
    /// The tokens from which on a text is read anew where it grows beyond them, instead of from the cache; `None` where
    /// it never is.
    pub rereads_beyond: Option<usize>,
    /// The positions that a token of each layer sees, itself among them; `None` for all.
    pub windows: Vec<Option<usize>>,
    /// Whether a token sees none of those behind it. Without, layers have no windows.
    pub is_causal: bool,
    pub logits: LogitsTransform,
    pub initializer_range: f64,
    pub pad_token_id: Option<usize>,
    pub tie_word_embeddings: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct DecoderAttentionConfig {
    pub num_attention_heads: usize,
    /// Each key and value serves several queries (Ainslie et al., 2023).
    pub num_key_value_heads: usize,
    pub head_dim: usize,
    pub dropout: f64,
    /// Whether the projections to queries, keys and values have biases.
    pub input_bias: bool,
    pub output_bias: bool,
    /// How queries and keys are normalized.
    pub norm: QueryNorm,
    /// The factor of scores.
    pub scale: f64,
    /// The bound of scores, to which tanh compresses them.
    pub score_cap: Option<f64>,
}

/// How queries and keys are normalized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryNorm {
    None,
    /// Head by head.
    Heads,
    /// All heads together.
    Whole,
}

/// Where norms stand beside attention and feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NormPlacement {
    Before,
    /// Before the residual connection.
    After,
    BeforeAndAfter,
}

/// A norm of queries or keys.
#[derive(Debug)]
pub(super) enum HeadsNorm {
    Each(RmsNorm),
    Whole(DividedRmsNorm),
}

impl DecoderConfig {
    pub(super) fn rms_norm(&self, path: ParameterPath<'_>, width: usize) -> RmsNorm {
        RmsNorm::new(path, width, self.rms_norm_eps, self.norm_scale)
    }

    /// The norm of the heads of queries or keys.
    fn head_norm(&self, path: ParameterPath<'_>) -> RmsNorm {
        RmsNorm::of_heads(path, self.attention.head_dim, self.rms_norm_eps, self.norm_scale)
    }

    /// The norms of all heads of queries and of keys, `None` where they have none.
    pub(super) fn query_norms(&self, path: &mut ParameterPath<'_>) -> Option<[HeadsNorm; 2]> {
        let (attention, heads) = (&self.attention, self.attention.heads());
        let widths = [("q_norm", heads.query_width()), ("k_norm", heads.key_width())];
        match attention.norm {
            QueryNorm::None => None,
            QueryNorm::Heads => {
                Some(widths.map(|(name, _)| HeadsNorm::Each(self.head_norm(path.at(name)))))
            }
            QueryNorm::Whole => Some(widths.map(|(name, width)| {
                HeadsNorm::Whole(DividedRmsNorm::new(path.at(name), width, self.rms_norm_eps))
            })),
        }
    }

    pub(super) fn mlp(&self, path: ParameterPath<'_>) -> GatedMlp {
        let gate = match self.fused_projections {
            true => GateNames::Joined("gate_up_proj"),
            false => GateNames::Apart(["gate_proj", "up_proj"]),
        };
        let config = GatedMlpConfig {
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            activation: self.hidden_act,
            biases: [self.mlp_bias; 2],
            dropout: 0.0,
            inits: [self.initializer_range.into(); 2],
        };
        GatedMlp::new(path, gate, "down_proj", &config)
    }

    pub(super) fn num_hidden_layers(&self) -> usize {
        self.windows.len()
    }
}

impl DecoderAttentionConfig {
    /// Refuses key and value heads that do not divide the heads of queries.
    pub(crate) fn check(&self, config: &ModelConfig) -> Result<()> {
        let (heads, shared) = (self.num_attention_heads, self.num_key_value_heads);
        if heads.is_multiple_of(shared) {
            return Ok(());
        }
        let problem = format!("{shared} does not divide num_attention_heads ({heads})");
        Err(config.error("num_key_value_heads", problem))
    }

    pub(super) fn heads(&self) -> HeadCounts {
        HeadCounts {
            queries: self.num_attention_heads,
            keys: self.num_key_value_heads,
            head_size: self.head_dim,
        }
    }
}
