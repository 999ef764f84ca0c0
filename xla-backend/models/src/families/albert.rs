//! ALBERT (Lan et al., 2019), as transformers' `AlbertModel` computes it: BERT with narrower embeddings and
//! layers that share parameters.

use super::bert;
use super::encoder_family::{EncoderFamily, FamilyConfig, HeadConfig};
use crate::config::ModelConfig;
use crate::encoder::{EncoderConfig, EncoderNames, Positions, SharedLayers};
use crate::error::Result;
use crate::heads::MaskedLmNames;
use crate::layers::{Activation, AttentionConfig, ProjectionNames};

/// The keys of an ALBERT `config.json` that bear on its computation.
const KEYS: &[&str] = &[
    "vocab_size",
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_hidden_groups",
    "inner_group_num",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
    "layer_norm_eps",
    "pad_token_id",
    "position_embedding_type",
    "tie_word_embeddings",
];

pub(crate) const FAMILY: EncoderFamily = EncoderFamily {
    model_type: "albert",
    class: "Albert",
    keys: KEYS,
    encoder: EncoderNames {
        prefix: "albert",
        embedding_norm: "embeddings.LayerNorm",
        layers: "encoder.albert_layer_groups",
        projections: ProjectionNames::Apart([
            "attention.query",
            "attention.key",
            "attention.value",
        ]),
        attention_output: "attention.dense",
        attention_norm: "attention.LayerNorm",
        intermediate: "ffn",
        output: "ffn_output",
        output_norm: "full_layer_layer_norm",
    },
    pooled_classifier: ["albert.pooler", "classifier"],
    pooler: Some("albert.pooler"),
    masked_lm: MaskedLmNames {
        dense: "predictions.dense",
        norm: "predictions.LayerNorm",
        words: "albert.embeddings.word_embeddings.weight",
        bias: "predictions.bias",
        decoder_weight: "predictions.decoder.weight",
        decoder_bias: Some("predictions.decoder.bias"),
    },
    causal_lm: None,
    resolve: |config| {
        let encoder = resolve_encoder(config)?;
        let classifier_dropout = config.dropout_or("classifier_dropout_prob", 0.1)?;
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

fn resolve_encoder(config: &ModelConfig) -> Result<EncoderConfig> {
    const DEFAULT_PAD_TOKEN_ID: usize = 0;
    bert::check_positions(config)?;
    let vocab_size = config.size_or("vocab_size", 30_000)?;
    let dropout = config.dropout_or("hidden_dropout_prob", 0.0)?;
    let attention = AttentionConfig {
        hidden_size: config.size_or("hidden_size", 4096)?,
        num_heads: config.size_or("num_attention_heads", 64)?,
        dropout: config.dropout_or("attention_probs_dropout_prob", 0.0)?,
        initializer_range: config.positive_or("initializer_range", 0.02)?,
    };
    attention.check(config, "num_attention_heads")?;
    let (layers, shared) = layers(config)?;
    Ok(EncoderConfig {
        vocab_size,
        embedding_size: config.size_or("embedding_size", 128)?,
        embedding_projection: Some("encoder.embedding_hidden_mapping_in"),
        num_hidden_layers: layers,
        intermediate_size: config.size_or("intermediate_size", 16_384)?,
        hidden_act: Activation::from_config(config, "hidden_act", "gelu_new")?,
        embedding_dropout: dropout,
        attention_output_dropout: dropout,
        output_dropout: 0.0,
        layer_norm_eps: config.positive_or("layer_norm_eps", 1e-12)?,
        pad_token_id: config.token_id_or("pad_token_id", vocab_size, DEFAULT_PAD_TOKEN_ID)?,
        positions: Positions::FromZero {
            rows: config.size_or("max_position_embeddings", 512)?,
            sinusoidal: false,
        },
        type_vocab_size: Some(config.size_or("type_vocab_size", 2)?),
        is_decoder: false,
        position_bias: None,
        shared_layers: Some(shared),
        attention,
        disentangled: None,
        last_norm: None,
        rotary: None,
    })
}

/// All layers, and how they share parameters: each group is repeated as often as others, but for rounding.
fn layers(config: &ModelConfig) -> Result<(usize, SharedLayers)> {
    let repeats = config.size_or("num_hidden_layers", 12)?;
    let groups = config.size_or("num_hidden_groups", 1)?;
    let inner = config.size_or("inner_group_num", 1)?;
    if groups > repeats {
        let problem = format!("expected at most num_hidden_layers ({repeats}), found {groups}");
        return Err(config.error("num_hidden_groups", problem));
    }
    Ok((repeats * inner, SharedLayers { groups, inner, name: "albert_layers" }))
}
