//! MPNet (Song et al., 2020), as transformers' `MPNetModel` computes it: RoBERTa with a bias of scores by
//! distance, which all layers share.

use super::bert;
use super::encoder_family::{EncoderFamily, FamilyConfig, HeadConfig};
use crate::config::ModelConfig;
use crate::encoder::{EncoderConfig, EncoderNames, PositionBiasTable, Positions};
use crate::error::Result;
use crate::heads::MaskedLmNames;
use crate::layers::{Activation, Buckets, Direction, ProjectionNames};

/// The keys of an MPNet `config.json` that bear on its computation.
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
    "initializer_range",
    "layer_norm_eps",
    "relative_attention_num_buckets",
    "tie_word_embeddings",
];

pub(crate) const FAMILY: EncoderFamily = EncoderFamily {
    model_type: "mpnet",
    class: "MPNet",
    keys: KEYS,
    encoder: EncoderNames {
        prefix: "mpnet",
        embedding_norm: "embeddings.LayerNorm",
        layers: "encoder.layer",
        projections: ProjectionNames::Apart([
            "attention.attn.q",
            "attention.attn.k",
            "attention.attn.v",
        ]),
        attention_output: "attention.attn.o",
        attention_norm: "attention.LayerNorm",
        intermediate: "intermediate.dense",
        output: "output.dense",
        output_norm: "output.LayerNorm",
    },
    pooled_classifier: ["classifier.dense", "classifier.out_proj"],
    pooler: Some("mpnet.pooler.dense"),
    masked_lm: MaskedLmNames {
        dense: "lm_head.dense",
        norm: "lm_head.layer_norm",
        words: "mpnet.embeddings.word_embeddings.weight",
        bias: "lm_head.bias",
        decoder_weight: "lm_head.decoder.weight",
        decoder_bias: Some("lm_head.decoder.bias"),
    },
    causal_lm: None,
    resolve: |config| {
        let encoder = resolve_encoder(config)?;
        let dropout = encoder.embedding_dropout;
        let heads = HeadConfig {
            pooled_input_dropout: dropout,
            pooled_activation: Activation::Tanh,
            pooled_dropout: dropout,
            token_dropout: dropout,
            span_dropout: 0.0,
            masked_lm_activation: Activation::Gelu,
        };
        Ok(FamilyConfig { encoder, heads })
    },
};

/// Resolves the keys of BERT without segments. The padding id is 1 whatever the config says, and the numbers of buckets
/// and of positions that they reach are fixed too.
fn resolve_encoder(config: &ModelConfig) -> Result<EncoderConfig> {
    const PADDING_ID: usize = 1;
    const BUCKETS: Buckets = Buckets { direction: Direction::Both, count: 32, distance_max: 128 };
    let encoder = bert::resolve_encoder(config, PADDING_ID)?;
    let table_rows = at_least(config, "relative_attention_num_buckets", 32, BUCKETS.count)?;
    at_least(config, "vocab_size", encoder.vocab_size, PADDING_ID + 1)?;
    let rows = at_least(config, "max_position_embeddings", 512, PADDING_ID + 2)?;
    Ok(EncoderConfig {
        pad_token_id: Some(PADDING_ID),
        positions: Positions::AfterPadding { rows, padding_id: PADDING_ID },
        type_vocab_size: None,
        is_decoder: false,
        position_bias: Some(PositionBiasTable {
            name: "encoder.relative_attention_bias",
            rows: table_rows,
            buckets: BUCKETS,
        }),
        ..encoder
    })
}

fn at_least(config: &ModelConfig, key: &str, default: usize, least: usize) -> Result<usize> {
    let size = config.size_or(key, default)?;
    match size < least {
        true => Err(config.error(key, format!("expected at least {least}, found {size}"))),
        false => Ok(size),
    }
}
