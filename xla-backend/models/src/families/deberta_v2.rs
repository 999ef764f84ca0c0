//! DeBERTa's second and third versions (He et al., 2021), as transformers' `DebertaV2Model` computes them:
//! BERT whose scores are sums of what contents say of each other and of their distance.

use super::bert;
use super::encoder_family::{EncoderFamily, FamilyConfig, HeadConfig};
use crate::config::ModelConfig;
use crate::encoder::{EncoderConfig, EncoderNames, Positions};
use crate::error::Result;
use crate::heads::MaskedLmNames;
use crate::layers::{Activation, AttentionConfig, DisentangledConfig, Distances, ProjectionNames};

/// The keys of a DeBERTa `config.json` that bear on its computation.
#[rustfmt::skip]
const KEYS: &[&str] = &[
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob",
    "max_position_embeddings", "type_vocab_size", "initializer_range", "layer_norm_eps",
    "pad_token_id", "relative_attention", "max_relative_positions", "position_buckets",
    "position_biased_input", "pos_att_type", "share_att_key", "norm_rel_ebd", "pooler_dropout",
    "pooler_hidden_act", "cls_dropout", "legacy", "tie_word_embeddings",
];

pub(crate) const FAMILY: EncoderFamily = EncoderFamily {
    model_type: "deberta-v2",
    class: "DebertaV2",
    keys: KEYS,
    encoder: EncoderNames {
        projections: ProjectionNames::Apart([
            "attention.self.query_proj",
            "attention.self.key_proj",
            "attention.self.value_proj",
        ]),
        ..bert::encoder_names("deberta")
    },
    pooled_classifier: ["pooler.dense", "classifier"],
    pooler: None,
    masked_lm: MaskedLmNames {
        dense: "cls.predictions.transform.dense",
        norm: "cls.predictions.transform.LayerNorm",
        words: "deberta.embeddings.word_embeddings.weight",
        bias: "cls.predictions.bias",
        decoder_weight: "cls.predictions.decoder.weight",
        decoder_bias: Some("cls.predictions.decoder.bias"),
    },
    causal_lm: None,
    resolve: |config| {
        let encoder = resolve_encoder(config)?;
        let dropout = encoder.output_dropout;
        let heads = HeadConfig {
            pooled_input_dropout: config.dropout_or("pooler_dropout", 0.0)?,
            pooled_activation: Activation::from_config(config, "pooler_hidden_act", "gelu")?,
            pooled_dropout: config.dropout_or("cls_dropout", dropout)?,
            token_dropout: dropout,
            span_dropout: 0.0,
            masked_lm_activation: encoder.hidden_act,
        };
        Ok(FamilyConfig { encoder, heads })
    },
};

/// Resolves `DebertaV2Config`: transformers' defaults where the file is silent.
fn resolve_encoder(config: &ModelConfig) -> Result<EncoderConfig> {
    refuse_other_widths(config)?;
    let vocab_size = config.size_or("vocab_size", 128_100)?;
    let rows = config.size_or("max_position_embeddings", 512)?;
    let dropout = config.dropout_or("hidden_dropout_prob", 0.1)?;
    let attention = AttentionConfig {
        hidden_size: config.size_or("hidden_size", 1536)?,
        num_heads: config.size_or("num_attention_heads", 24)?,
        dropout: config.dropout_or("attention_probs_dropout_prob", 0.1)?,
        initializer_range: config.positive_or("initializer_range", 0.02)?,
    };
    attention.check(config, "num_attention_heads")?;
    let disentangled = resolve_distances(config, rows, dropout)?;
    let segments = config.count_or("type_vocab_size", 0)?;
    Ok(EncoderConfig {
        vocab_size,
        embedding_size: attention.hidden_size,
        embedding_projection: None,
        num_hidden_layers: config.size_or("num_hidden_layers", 24)?,
        intermediate_size: config.size_or("intermediate_size", 6144)?,
        hidden_act: Activation::from_config(config, "hidden_act", "gelu")?,
        embedding_dropout: dropout,
        attention_output_dropout: dropout,
        output_dropout: dropout,
        layer_norm_eps: config.positive_or("layer_norm_eps", 1e-7)?,
        pad_token_id: config.token_id_or("pad_token_id", vocab_size, 0)?,
        positions: match config.bool_or("position_biased_input", true)? {
            true => Positions::FromZero { rows, sinusoidal: false },
            false => Positions::Absent { longest_row: config.computed_positions_or(512)? },
        },
        type_vocab_size: (segments > 0).then_some(segments),
        is_decoder: false,
        position_bias: None,
        shared_layers: None,
        attention,
        disentangled: Some(disentangled),
        last_norm: None,
        rotary: None,
    })
}

fn resolve_distances(
    config: &ModelConfig,
    max_position_embeddings: usize,
    position_dropout: f64,
) -> Result<DisentangledConfig> {
    let [to_position, from_position] = position_terms(config)?;
    let reach = config.size_above_zero("max_relative_positions")?;
    let distances = Distances {
        buckets: config.size_above_zero("position_buckets")?,
        reach: reach.unwrap_or(max_position_embeddings),
    };
    let is_relative = config.bool_or("relative_attention", false)?;
    Ok(DisentangledConfig {
        distances: is_relative.then_some(distances),
        to_position,
        from_position,
        shares_projections: config.bool_or("share_att_key", false)?,
        position_projections: ["attention.self.pos_key_proj", "attention.self.pos_query_proj"],
        position_dropout,
        normalizes_distances: normalizes_distances(config, is_relative)?,
    })
}

/// Whether `norm_rel_ebd` has a norm for the table of distances, which a model without one has no use for.
fn normalizes_distances(config: &ModelConfig, is_relative: bool) -> Result<bool> {
    const KEY: &str = "norm_rel_ebd";
    let norms = config.string_or(KEY, "none")?.to_lowercase();
    let normalizes = norms.split('|').any(|norm| norm.trim() == "layer_norm");
    if normalizes && !is_relative {
        return Err(config.error(KEY, "expected none, since relative_attention is false"));
    }
    Ok(normalizes)
}

/// Whether `pos_att_type`, a list or names joined by bars, has `c2p` and `p2c`.
fn position_terms(config: &ModelConfig) -> Result<[bool; 2]> {
    const KEY: &str = "pos_att_type";
    const TERMS: [&str; 2] = ["c2p", "p2c"];
    let is_text = config.keys().get(KEY).is_some_and(serde_json::Value::is_string);
    let text = if is_text { config.string_or(KEY, "")?.to_lowercase() } else { String::new() };
    let names: Vec<&str> = match is_text {
        true => text.split('|').map(str::trim).filter(|name| !name.is_empty()).collect(),
        false => config.strings(KEY)?.unwrap_or_default(),
    };
    match names.iter().find(|name| !TERMS.contains(name)) {
        Some(other) => Err(config.error(KEY, format!("expected c2p and p2c, found {other}"))),
        None => Ok(TERMS.map(|term| names.contains(&term))),
    }
}

/// Refuses convolutions, and parts that are not as wide as hidden states.
fn refuse_other_widths(config: &ModelConfig) -> Result<()> {
    if config.count_or("conv_kernel_size", 0)? > 0 {
        let problem = "convolutions are not supported; 0 has none";
        return Err(config.error("conv_kernel_size", problem));
    }
    let hidden = config.size_or("hidden_size", 1536)?;
    let head = hidden / config.size_or("num_attention_heads", 24)?;
    let widths =
        [("embedding_size", hidden), ("pooler_hidden_size", hidden), ("attention_head_size", head)];
    for (key, expected) in widths {
        let found = config.size_or(key, expected)?;
        if found != expected {
            let problem = format!("expected {expected} as hidden_size has it, found {found}");
            return Err(config.error(key, problem));
        }
    }
    Ok(())
}
