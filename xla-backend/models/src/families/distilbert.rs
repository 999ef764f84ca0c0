//! DistilBERT (Sanh et al., 2019): BERT without segments and pooler, and with
//! other names.

use super::encoder_family::{EncoderFamily, FamilyConfig, HeadConfig};
use crate::config::ModelConfig;
use crate::encoder::{EncoderConfig, EncoderNames, Positions};
use crate::error::Result;
use crate::heads::MaskedLmNames;
use crate::layers::{Activation, AttentionConfig, ProjectionNames};

/// The keys of a DistilBERT `config.json` that bear on its computation.
const KEYS: &[&str] = &[
    "vocab_size",
    "dim",
    "n_layers",
    "n_heads",
    "hidden_dim",
    "activation",
    "dropout",
    "attention_dropout",
    "max_position_embeddings",
    "sinusoidal_pos_embds",
    "initializer_range",
    "pad_token_id",
    "qa_dropout",
    "seq_classif_dropout",
    "tie_word_embeddings",
];

pub(crate) const FAMILY: EncoderFamily = EncoderFamily {
    model_type: "distilbert",
    class: "DistilBert",
    keys: KEYS,
    encoder: EncoderNames {
        prefix: "distilbert",
        embedding_norm: "embeddings.LayerNorm",
        layers: "transformer.layer",
        projections: ProjectionNames::Apart([
            "attention.q_lin",
            "attention.k_lin",
            "attention.v_lin",
        ]),
        attention_output: "attention.out_lin",
        attention_norm: "sa_layer_norm",
        intermediate: "ffn.lin1",
        output: "ffn.lin2",
        output_norm: "output_layer_norm",
    },
    pooled_classifier: ["pre_classifier", "classifier"],
    pooler: None,
    masked_lm: MaskedLmNames {
        dense: "vocab_transform",
        norm: "vocab_layer_norm",
        words: "distilbert.embeddings.word_embeddings.weight",
        bias: "vocab_projector.bias",
        decoder_weight: "vocab_projector.weight",
        decoder_bias: None,
    },
    causal_lm: None,
    resolve: |config| {
        let encoder = resolve_encoder(config)?;
        let heads = HeadConfig {
            pooled_input_dropout: 0.0,
            pooled_activation: Activation::Relu,
            pooled_dropout: config.dropout_or("seq_classif_dropout", 0.2)?,
            token_dropout: encoder.embedding_dropout,
            span_dropout: config.dropout_or("qa_dropout", 0.1)?,
            masked_lm_activation: encoder.hidden_act,
        };
        Ok(FamilyConfig { encoder, heads })
    },
};

fn resolve_encoder(config: &ModelConfig) -> Result<EncoderConfig> {
    const LAYER_NORM_EPS: f64 = 1e-12;
    const DEFAULT_PAD_TOKEN_ID: usize = 0;
    let vocab_size = config.size("vocab_size")?;
    let dropout = config.dropout_or("dropout", 0.1)?;
    let attention = AttentionConfig {
        hidden_size: config.size("dim")?,
        num_heads: config.size("n_heads")?,
        dropout: config.dropout_or("attention_dropout", 0.1)?,
        initializer_range: config.positive_or("initializer_range", 0.02)?,
    };
    attention.check(config, "n_heads")?;
    Ok(EncoderConfig {
        vocab_size,
        embedding_size: attention.hidden_size,
        embedding_projection: None,
        num_hidden_layers: config.size("n_layers")?,
        intermediate_size: config.size("hidden_dim")?,
        hidden_act: Activation::from_config(config, "activation", "gelu")?,
        embedding_dropout: dropout,
        attention_output_dropout: 0.0,
        output_dropout: dropout,
        layer_norm_eps: LAYER_NORM_EPS,
        pad_token_id: config.token_id_or("pad_token_id", vocab_size, DEFAULT_PAD_TOKEN_ID)?,
        positions: Positions::FromZero {
            rows: config.size_or("max_position_embeddings", 512)?,
            sinusoidal: config.bool_or("sinusoidal_pos_embds", false)?,
        },
        type_vocab_size: None,
        is_decoder: false,
        position_bias: None,
        shared_layers: None,
        attention,
        disentangled: None,
        last_norm: None,
        rotary: None,
    })
}
