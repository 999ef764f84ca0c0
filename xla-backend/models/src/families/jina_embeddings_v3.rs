//! Jina Embeddings v3 (Sturua et al., 2024), as transformers' `JinaEmbeddingsV3Model` computes it: XLM-RoBERTa, whose
//! queries and keys turn with their positions.

use super::encoder_family::{EncoderFamily, FamilyConfig};
use super::roberta;
use crate::config::ModelConfig;
use crate::encoder::{EncoderConfig, EncoderNames, Positions};
use crate::error::Result;
use crate::layers::{Activation, AttentionConfig, ProjectionNames};
use crate::rope;

/// The keys of its `config.json` that bear on its computation.
const KEYS: &[&str] = &[
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
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "tie_word_embeddings",
];

pub(crate) const FAMILY: EncoderFamily = EncoderFamily {
    model_type: "jina_embeddings_v3",
    class: "JinaEmbeddingsV3",
    keys: KEYS,
    // As models on the hub have them and transformers saves them.
    encoder: EncoderNames {
        prefix: "roberta",
        embedding_norm: "emb_ln",
        layers: "encoder.layers",
        projections: ProjectionNames::Joined("mixer.Wqkv"),
        attention_output: "mixer.out_proj",
        attention_norm: "norm1",
        intermediate: "mlp.fc1",
        output: "mlp.fc2",
        output_norm: "norm2",
    },
    causal_lm: None,
    resolve: |config| {
        let encoder = resolve_encoder(config)?;
        let heads = roberta::heads(config, &encoder)?;
        Ok(FamilyConfig { encoder, heads })
    },
    ..roberta::FAMILY
};

fn resolve_encoder(config: &ModelConfig) -> Result<EncoderConfig> {
    const DEFAULT_PAD_TOKEN_ID: usize = 1;
    const DEFAULT_THETA: f64 = 20_000.0;
    let vocab_size = config.size_or("vocab_size", 250_002)?;
    let dropout = config.dropout_or("hidden_dropout_prob", 0.1)?;
    let attention = AttentionConfig {
        hidden_size: config.size_or("hidden_size", 1024)?,
        num_heads: config.size_or("num_attention_heads", 16)?,
        dropout: config.dropout_or("attention_probs_dropout_prob", 0.1)?,
        initializer_range: config.positive_or("initializer_range", 0.02)?,
    };
    attention.check(config, "num_attention_heads")?;
    let head_size = attention.hidden_size / attention.num_heads;
    Ok(EncoderConfig {
        vocab_size,
        embedding_size: attention.hidden_size,
        embedding_projection: None,
        num_hidden_layers: config.size_or("num_hidden_layers", 24)?,
        intermediate_size: config.size_or("intermediate_size", 4096)?,
        hidden_act: Activation::from_config(config, "hidden_act", "gelu")?,
        embedding_dropout: dropout,
        attention_output_dropout: dropout,
        output_dropout: dropout,
        layer_norm_eps: config.positive_or("layer_norm_eps", 1e-5)?,
        pad_token_id: config.token_id_or("pad_token_id", vocab_size, DEFAULT_PAD_TOKEN_ID)?,
        positions: Positions::Absent { longest_row: config.computed_positions_or(8194)? },
        type_vocab_size: Some(config.size_or("type_vocab_size", 1)?),
        is_decoder: false,
        position_bias: None,
        shared_layers: None,
        attention,
        disentangled: None,
        last_norm: None,
        rotary: Some(rope::resolve(config, head_size, DEFAULT_THETA)?),
    })
}
