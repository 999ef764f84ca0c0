//! T5 (Raffel et al., 2019), its version 1.1, and mT5 (Xue et al., 2020).
//!
//! V `vocab_size`, T positions of a target.

use crate::config::ModelConfig;
use crate::error::Result;
use crate::family::{Family, FamilyModel};
use crate::heads::{EmbeddingHead, Seq2SeqLmHead, lm_head};
use crate::layers::Activation;
use crate::model::Model;
use crate::seq2seq::EncoderDecoder;
use crate::seq2seq::t5::{MAX_POSITIONS, T5, T5Config, T5Encoder, WORDS};
use crate::tasks::Task;

/// The keys of a `config.json` that bear on its computation.
const KEYS: &[&str] = &[
    "vocab_size",
    "d_model",
    "d_kv",
    "d_ff",
    "num_layers",
    "num_decoder_layers",
    "num_heads",
    "relative_attention_num_buckets",
    "relative_attention_max_distance",
    "dropout_rate",
    "layer_norm_epsilon",
    "initializer_factor",
    "feed_forward_proj",
    "tie_word_embeddings",
    "scale_decoder_outputs",
    "pad_token_id",
    "eos_token_id",
    "decoder_start_token_id",
];

/// A family whose models are T5's.
#[derive(Debug)]
pub(crate) struct T5Family {
    model_type: &'static str,
    class: &'static str,
    defaults: Defaults,
}

/// The values of keys that a `config.json` lacks.
#[derive(Clone, Copy, Debug)]
struct Defaults {
    vocab_size: usize,
    d_ff: usize,
    num_layers: usize,
    num_heads: usize,
    feed_forward_proj: &'static str,
    /// Whether a tied head scales its inputs.
    scales: bool,
}

pub(crate) const FAMILY: T5Family = T5Family {
    model_type: "t5",
    class: "T5",
    defaults: Defaults {
        vocab_size: 32_128,
        d_ff: 2048,
        num_layers: 6,
        num_heads: 8,
        feed_forward_proj: "relu",
        scales: true,
    },
};

pub(crate) const MT5_FAMILY: T5Family = T5Family {
    model_type: "mt5",
    class: "MT5",
    defaults: Defaults {
        vocab_size: 250_112,
        d_ff: 1024,
        num_layers: 8,
        num_heads: 6,
        feed_forward_proj: "gated-gelu",
        scales: false,
    },
};

impl Family for T5Family {
    fn model_type(&self) -> &'static str {
        self.model_type
    }

    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    fn max_positions(&self, _config: &ModelConfig) -> Result<usize> {
        Ok(MAX_POSITIONS)
    }

    fn model(&self, task: Task) -> Option<FamilyModel<'_>> {
        match task {
            Task::Seq2SeqLm => {
                let name = format!("{}ForConditionalGeneration", self.class);
                Some(FamilyModel::new(name, |config| self.conditional_generation(config)))
            }
            Task::Embedding => {
                let name = format!("{}EncoderModel", self.class);
                Some(FamilyModel::new(name, |config| self.embedding(config)))
            }
            _ => None,
        }
    }
}

impl T5Family {
    /// Logits f32[B, T, V].
    fn conditional_generation(&self, config: ModelConfig) -> Result<Model> {
        Model::assemble(config, |config, root| {
            let t5 = self.resolve(config)?;
            let (hidden_size, vocab_size) = (t5.d_model, t5.vocab_size);
            let (std, tied) = (t5.initializer_factor, config.bool_or("tie_word_embeddings", true)?);
            let scales = config.bool_or("scale_decoder_outputs", tied && self.defaults.scales)?;
            let body = EncoderDecoder::new(T5::new(root, t5));
            let decoder = lm_head(root, WORDS, tied, [hidden_size, vocab_size], std);
            let scale = scales.then(|| (hidden_size as f64).powf(-0.5));
            Ok((body, Seq2SeqLmHead { decoder, scale, bias: None, hidden_size, vocab_size }))
        })
    }

    /// Embeddings f32[B, D] by the encoder alone.
    fn embedding(&self, config: ModelConfig) -> Result<Model> {
        Model::assemble(config, |config, root| {
            let t5 = self.resolve(config)?;
            let hidden_size = t5.d_model;
            let body = T5Encoder::new(root, t5, &["encoder"]);
            Ok((body, EmbeddingHead::new(root, config, hidden_size)?))
        })
    }

    fn resolve(&self, config: &ModelConfig) -> Result<T5Config> {
        let defaults = &self.defaults;
        let (is_gated, activation) = feed_forward(config, defaults.feed_forward_proj)?;
        let num_layers = config.size_or("num_layers", defaults.num_layers)?;
        let resolved = T5Config {
            vocab_size: config.size_or("vocab_size", defaults.vocab_size)?,
            d_model: config.size_or("d_model", 512)?,
            d_kv: config.size_or("d_kv", 64)?,
            d_ff: config.size_or("d_ff", defaults.d_ff)?,
            num_layers,
            num_decoder_layers: config.size_or("num_decoder_layers", num_layers)?,
            num_heads: config.size_or("num_heads", defaults.num_heads)?,
            relative_attention_num_buckets: config.size_or("relative_attention_num_buckets", 32)?,
            relative_attention_max_distance: config
                .size_or("relative_attention_max_distance", 128)?,
            dropout_rate: config.dropout_or("dropout_rate", 0.1)?,
            layer_norm_epsilon: config.positive_or("layer_norm_epsilon", 1e-6)?,
            initializer_factor: config.positive_or("initializer_factor", 1.0)?,
            activation,
            is_gated,
        };
        check_buckets(config, &resolved)?;
        Ok(resolved)
    }
}

/// Refuses buckets that have no distances.
fn check_buckets(config: &ModelConfig, t5: &T5Config) -> Result<()> {
    let (count, distance) = (t5.relative_attention_num_buckets, t5.relative_attention_max_distance);
    if count < 4 || !count.is_multiple_of(2) {
        let problem = format!("expected an even number of 4 or more, found {count}");
        return Err(config.error("relative_attention_num_buckets", problem));
    }
    if distance <= count / 2 {
        let problem = format!("expected more than {}, found {distance}", count / 2);
        return Err(config.error("relative_attention_max_distance", problem));
    }
    Ok(())
}

/// Whether the feed-forward network is gated, and its activation, by `feed_forward_proj`.
fn feed_forward(config: &ModelConfig, default: &str) -> Result<(bool, Activation)> {
    const KEY: &str = "feed_forward_proj";
    let (is_gated, name) = match config.string_or(KEY, default)? {
        "gated-gelu" => (true, "gelu_new"),
        name => match name.strip_prefix("gated-") {
            Some(name) => (true, name),
            None => (false, name),
        },
    };
    Ok((is_gated, Activation::named(config, KEY, name)?))
}
