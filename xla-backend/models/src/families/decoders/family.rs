//! The tasks of a family that is a decoder: what Llama, Mistral, Qwen, Gemma and
//! Phi-3 have in common. A family says how its config reads.
//!
//! B rows, S positions, C labels, V `vocab_size`.

use crate::config::ModelConfig;
use crate::decoder::{
    Decoder, DecoderAttentionConfig, DecoderConfig, NormPlacement, QueryNorm, WORDS,
};
use crate::error::Result;
use crate::families::layer_types::local_layers;
use crate::family::{Family, FamilyModel};
use crate::heads::{CausalLmHead, EmbeddingHead, LastTokenClassifier, LogitsTransform, lm_head};
use crate::layers::{Activation, Linear, Scale, check_heads};
use crate::model::Model;
use crate::rope;
use crate::tasks::{SequenceClassification, Task};

#[derive(Debug)]
pub(crate) struct DecoderFamily {
    pub(super) model_type: &'static str,
    /// The prefix of the classes in transformers: `Llama` of `LlamaForCausalLM`.
    pub(super) class: &'static str,
    /// The prefix of the class that classifies sequences, where there is one.
    pub(super) classifier: Option<&'static str>,
    /// The keys of a `config.json` that bear on its computation.
    pub(super) keys: &'static [&'static str],
    pub(super) resolve: fn(&ModelConfig) -> Result<DecoderConfig>,
}

impl Family for DecoderFamily {
    fn model_type(&self) -> &'static str {
        self.model_type
    }

    fn keys(&self) -> &'static [&'static str] {
        self.keys
    }

    fn max_positions(&self, config: &ModelConfig) -> Result<usize> {
        Ok((self.resolve)(config)?.max_position_embeddings)
    }

    fn model(&self, task: Task) -> Option<FamilyModel<'_>> {
        Some(match task {
            Task::CausalLm => FamilyModel::new(format!("{}ForCausalLM", self.class), |config| {
                self.causal_lm(config)
            }),
            Task::SequenceClassification => {
                let class = format!("{}ForSequenceClassification", self.classifier?);
                FamilyModel::new(class, |config| self.sequence_classification(config))
            }
            Task::Embedding => FamilyModel::new(
                format!("{}Model", self.classifier.unwrap_or(self.class)),
                |config| self.embedding(config),
            ),
            Task::TokenClassification
            | Task::QuestionAnswering
            | Task::MaskedLm
            | Task::Seq2SeqLm
            | Task::ImageClassification
            | Task::ReplacedTokenDetection => return None,
        })
    }
}

impl DecoderFamily {
    /// Logits f32[B, S, V].
    fn causal_lm(&self, config: ModelConfig) -> Result<Model> {
        Model::assemble(config, |config, root| {
            let resolved = (self.resolve)(config)?;
            let (hidden_size, vocab_size) = (resolved.hidden_size, resolved.vocab_size);
            let (std, tied) = (resolved.initializer_range, resolved.tie_word_embeddings);
            let transform = resolved.logits;
            let body = Decoder::new(root, resolved);
            let decoder = lm_head(root, WORDS, tied, [hidden_size, vocab_size], std);
            Ok((body, CausalLmHead { decoder, hidden_size, vocab_size, transform }))
        })
    }

    /// Logits f32[B, C].
    fn sequence_classification(&self, config: ModelConfig) -> Result<Model> {
        Model::assemble(config, |config, root| {
            let resolved = (self.resolve)(config)?;
            let task = SequenceClassification::new(config)?;
            let pad_token_id = config.padding_token_or(resolved.pad_token_id);
            let (hidden_size, std) = (resolved.hidden_size, resolved.initializer_range);
            let body = Decoder::new(root, resolved);
            let score = Linear::without_bias(root.at("score"), hidden_size, task.num_labels, std);
            Ok((body, LastTokenClassifier { score, pad_token_id, hidden_size, task }))
        })
    }

    /// Embeddings f32[B, D].
    fn embedding(&self, config: ModelConfig) -> Result<Model> {
        Model::assemble(config, |config, root| {
            let resolved = (self.resolve)(config)?;
            let hidden_size = resolved.hidden_size;
            let body = Decoder::new(&mut root.at("").as_base_model("model"), resolved);
            Ok((body, EmbeddingHead::new(root, config, hidden_size)?))
        })
    }
}

/// The config keys that all decoders read.
macro_rules! decoder_keys {
    ($($own:literal),* $(,)?) => {
        &[
            "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
            "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act",
            "max_position_embeddings", "initializer_range", "rms_norm_eps", "pad_token_id",
            "tie_word_embeddings", "attention_dropout", "rope_theta", "rope_scaling",
            "rope_parameters", "partial_rotary_factor", $($own),*
        ]
    };
}
pub(in crate::families) use decoder_keys;

/// `sliding_window`, the positions that a token of a layer with a window sees; null has no window.
pub(super) fn sliding_window(
    config: &ModelConfig,
    default: Option<usize>,
) -> Result<Option<usize>> {
    match config.is_null("sliding_window") {
        true => Ok(None),
        false => Ok(config.optional_size("sliding_window")?.or(default)),
    }
}

/// The windows of layers: `window` for each that is local, and none for the others.
pub(super) fn windows_of(is_local: &[bool], window: Option<usize>) -> Vec<Option<usize>> {
    is_local.iter().map(|is_local| window.filter(|_| *is_local)).collect()
}

/// The windows of Qwen's layers: `layer_types`, or all layers from `max_window_layers` on
/// where `use_sliding_window` is set.
pub(super) fn qwen_windows(config: &ModelConfig, layers: usize) -> Result<Vec<Option<usize>>> {
    if !config.bool_or("use_sliding_window", false)? {
        return Ok(vec![None; layers]);
    }
    let first = config.count_or("max_window_layers", 28)?;
    let is_local = local_layers(config, layers, |layer| layer >= first)?;
    Ok(windows_of(&is_local, sliding_window(config, Some(4096))?))
}

/// The values of keys that a `config.json` lacks.
#[derive(Clone, Copy, Debug)]
pub(in crate::families) struct Defaults {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    /// The heads of keys and values; `num_attention_heads` where `None`.
    pub num_key_value_heads: Option<usize>,
    /// `hidden_size` divided by `num_attention_heads` where `None`.
    pub head_dim: Option<usize>,
    pub max_position_embeddings: usize,
    pub rms_norm_eps: f64,
    pub hidden_act: &'static str,
    pub pad_token_id: Option<usize>,
    pub rope_theta: f64,
    pub tie_word_embeddings: bool,
}

pub(in crate::families) const LLAMA: Defaults = Defaults {
    vocab_size: 32_000,
    hidden_size: 4096,
    intermediate_size: 11_008,
    num_hidden_layers: 32,
    num_attention_heads: 32,
    num_key_value_heads: None,
    head_dim: None,
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-6,
    hidden_act: "silu",
    pad_token_id: None,
    rope_theta: 10_000.0,
    tie_word_embeddings: false,
};

/// Resolves the keys of `LlamaConfig`, from which the other families differ in a few.
pub(in crate::families) fn resolve_llama(
    config: &ModelConfig,
    defaults: &Defaults,
) -> Result<DecoderConfig> {
    refuse_soft_caps(config, &["attn_logit_softcapping", "final_logit_softcapping"])?;
    resolve_capped(config, defaults)
}

/// Resolves the keys of families that may have soft caps.
pub(super) fn resolve_capped(config: &ModelConfig, defaults: &Defaults) -> Result<DecoderConfig> {
    let layers = config.size_or("num_hidden_layers", defaults.num_hidden_layers)?;
    let vocab_size = config.size_or("vocab_size", defaults.vocab_size)?;
    let hidden_size = config.size_or("hidden_size", defaults.hidden_size)?;
    let attention = resolve_attention(config, defaults, hidden_size)?;
    let pad_token_id = match defaults.pad_token_id {
        Some(id) => config.token_id_or("pad_token_id", vocab_size, id)?,
        None => config.token_id("pad_token_id", vocab_size)?,
    };
    Ok(DecoderConfig {
        vocab_size,
        hidden_size,
        intermediate_size: config.size_or("intermediate_size", defaults.intermediate_size)?,
        max_position_embeddings: config.computed_positions_or(defaults.max_position_embeddings)?,
        hidden_act: Activation::from_config(config, "hidden_act", defaults.hidden_act)?,
        mlp_bias: false,
        fused_projections: false,
        rotaries: vec![
            Some(rope::resolve(config, attention.head_dim, defaults.rope_theta)?);
            layers
        ],
        attention,
        norm_scale: Scale::Weight,
        rms_norm_eps: config.positive_or("rms_norm_eps", defaults.rms_norm_eps)?,
        embedding_scale: None,
        residual_dropout: 0.0,
        residual_scale: None,
        rereads_beyond: None,
        norms: NormPlacement::Before,
        windows: vec![None; layers],
        is_causal: true,
        logits: LogitsTransform::default(),
        initializer_range: config.positive_or("initializer_range", 0.02)?,
        pad_token_id,
        tie_word_embeddings: config.bool_or("tie_word_embeddings", defaults.tie_word_embeddings)?,
    })
}

/// Refuses caps of scores and logits, which Gemma's second generation has, rather than ignore them.
pub(super) fn refuse_soft_caps(config: &ModelConfig, keys: &[&str]) -> Result<()> {
    let given = |key: &&&str| config.keys().get(**key).is_some_and(|value| !value.is_null());
    match keys.iter().find(given) {
        Some(key) => Err(config.error(key, "soft caps are not supported; null has none")),
        None => Ok(()),
    }
}

fn resolve_attention(
    config: &ModelConfig,
    defaults: &Defaults,
    hidden_size: usize,
) -> Result<DecoderAttentionConfig> {
    let heads = config.size_or("num_attention_heads", defaults.num_attention_heads)?;
    let shared = defaults.num_key_value_heads.unwrap_or(heads);
    let head_dim = match config.optional_size("head_dim")?.or(defaults.head_dim) {
        Some(head_dim) => head_dim,
        None => {
            check_heads(config, "num_attention_heads", heads, hidden_size)?;
            hidden_size / heads
        }
    };
    let num_key_value_heads = match config.is_null("num_key_value_heads") {
        true => heads,
        false => config.size_or("num_key_value_heads", shared)?,
    };
    let attention = DecoderAttentionConfig {
        num_attention_heads: heads,
        num_key_value_heads,
        head_dim,
        dropout: config.dropout_or("attention_dropout", 0.0)?,
        input_bias: false,
        output_bias: false,
        norm: QueryNorm::None,
        scale: (head_dim as f64).powf(-0.5),
        score_cap: None,
    };
    attention.check(config)?;
    Ok(attention)
}

/// Sets the biases of all projections of attention as `attention_bias` has it.
pub(in crate::families) fn set_attention_bias(
    config: &ModelConfig,
    decoder: &mut DecoderConfig,
) -> Result<()> {
    let bias = config.bool_or("attention_bias", false)?;
    decoder.attention.input_bias = bias;
    decoder.attention.output_bias = bias;
    Ok(())
}
