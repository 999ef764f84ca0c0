//! BERT (Devlin et al., 2018), as transformers' `BertModel` computes it.

use super::encoder_family::{EncoderFamily, FamilyConfig, HeadConfig};
use crate::config::ModelConfig;
use crate::encoder::{EncoderConfig, EncoderNames, Positions};
use crate::error::Result;
use crate::heads::MaskedLmNames;
use crate::layers::{Activation, AttentionConfig, ProjectionNames};

/// The keys of a BERT `config.json` that bear on its computation.
pub(super) const KEYS: &[&str] = &[
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
    "layer_norm_eps",
    "pad_token_id",
    "classifier_dropout",
    "position_embedding_type",
    "is_decoder",
    "tie_word_embeddings",
];

pub(crate) const FAMILY: EncoderFamily = EncoderFamily {
    model_type: "bert",
    class: "Bert",
    keys: KEYS,
    encoder: encoder_names("bert"),
    pooled_classifier: ["bert.pooler.dense", "classifier"],
    pooler: Some("bert.pooler.dense"),
    masked_lm: MaskedLmNames {
        dense: "cls.predictions.transform.dense",
        norm: "cls.predictions.transform.LayerNorm",
        words: "bert.embeddings.word_embeddings.weight",
        bias: "cls.predictions.bias",
        decoder_weight: "cls.predictions.decoder.weight",
        decoder_bias: Some("cls.predictions.decoder.bias"),
    },
    causal_lm: Some("LMHeadModel"),
    resolve: |config| {
        const DEFAULT_PAD_TOKEN_ID: usize = 0;
        let encoder = resolve_encoder(config, DEFAULT_PAD_TOKEN_ID)?;
        let classifier_dropout = classifier_dropout(config, &encoder)?;
        let heads = HeadConfig {
            pooled_input_dropout: 0.0,
            pooled_activation: Activation::Tanh,
            pooled_dropout: classifier_dropout,
            token_dropout: classifier_dropout,
            span_dropout: 0.0,
            masked_lm_activation: encoder.hidden_act,
        };
        Ok(FamilyConfig { encoder, heads })
    },
};

/// The names of BERT's modules, which RoBERTa has below another prefix.
pub(super) const fn encoder_names(prefix: &'static str) -> EncoderNames {
    EncoderNames {
        prefix,
        embedding_norm: "embeddings.LayerNorm",
        layers: "encoder.layer",
        projections: ProjectionNames::Apart([
            "attention.self.query",
            "attention.self.key",
            "attention.self.value",
        ]),
        attention_output: "attention.output.dense",
        attention_norm: "attention.output.LayerNorm",
        intermediate: "intermediate.dense",
        output: "output.dense",
        output_norm: "output.LayerNorm",
    }
}

/// Resolves `BertConfig`, whose keys are also RoBERTa's.
pub(super) fn resolve_encoder(
    config: &ModelConfig,
    default_pad_token_id: usize,
) -> Result<EncoderConfig> {
    check_positions(config)?;
    let vocab_size = config.size("vocab_size")?;
    let dropout = config.dropout_or("hidden_dropout_prob", 0.1)?;
    let attention = AttentionConfig {
        hidden_size: config.size("hidden_size")?,
        num_heads: config.size("num_attention_heads")?,
        dropout: config.dropout_or("attention_probs_dropout_prob", 0.1)?,
        initializer_range: config.positive_or("initializer_range", 0.02)?,
    };
    attention.check(config, "num_attention_heads")?;
    Ok(EncoderConfig {
        vocab_size,
        embedding_size: attention.hidden_size,
        embedding_projection: None,
        num_hidden_layers: config.size("num_hidden_layers")?,
        intermediate_size: config.size("intermediate_size")?,
        hidden_act: Activation::from_config(config, "hidden_act", "gelu")?,
        embedding_dropout: dropout,
        attention_output_dropout: dropout,
        output_dropout: dropout,
        layer_norm_eps: config.positive_or("layer_norm_eps", 1e-12)?,
        pad_token_id: config.token_id_or("pad_token_id", vocab_size, default_pad_token_id)?,
        positions: Positions::FromZero {
            rows: config.size_or("max_position_embeddings", 512)?,
            sinusoidal: false,
        },
        type_vocab_size: Some(config.size_or("type_vocab_size", 2)?),
        is_decoder: config.bool_or("is_decoder", false)?,
        position_bias: None,
        shared_layers: None,
        attention,
        disentangled: None,
        last_norm: None,
        rotary: None,
    })
}

pub(super) fn check_positions(config: &ModelConfig) -> Result<()> {
    match config.string_or("position_embedding_type", "absolute")? {
        "absolute" => Ok(()),
        other => {
            let problem = format!("expected absolute, found {other}");
            Err(config.error("position_embedding_type", problem))
        }
    }
}

/// `classifier_dropout`, or where the config has none, that of hidden states.
pub(super) fn classifier_dropout(config: &ModelConfig, encoder: &EncoderConfig) -> Result<f64> {
    config.dropout_or("classifier_dropout", encoder.embedding_dropout)
}
