//! Gemma's second generation (Riviere et al., 2024), as transformers' `Gemma2Model` computes it: a Gemma
//! with norms before and behind attention and feed-forward network, caps of scores and logits, and a
//! window in every other layer.

use super::family::{
    DecoderFamily, Defaults, decoder_keys, resolve_capped, set_attention_bias, sliding_window,
    windows_of,
};
use super::gemma;
use crate::config::ModelConfig;
use crate::decoder::{DecoderConfig, NormPlacement};
use crate::error::Result;
use crate::families::layer_types::local_layers;
use crate::layers::{Activation, Scale};

pub(crate) const FAMILY: DecoderFamily = DecoderFamily {
    model_type: "gemma2",
    class: "Gemma2",
    classifier: Some("Gemma2"),
    keys: decoder_keys![
        "attention_bias",
        "use_bidirectional_attention",
        "hidden_activation",
        "query_pre_attn_scalar",
        "sliding_window",
        "layer_types",
        "attn_logit_softcapping",
        "final_logit_softcapping",
    ],
    resolve,
};

pub(super) const DEFAULTS: Defaults = Defaults {
    hidden_size: 2304,
    intermediate_size: 9216,
    num_hidden_layers: 26,
    num_attention_heads: 8,
    num_key_value_heads: Some(4),
    ..gemma::DEFAULTS
};

fn resolve(config: &ModelConfig) -> Result<DecoderConfig> {
    let mut gemma = resolve_common(config, &DEFAULTS)?;
    let is_local = local_layers(config, gemma.windows.len(), |layer| layer.is_multiple_of(2))?;
    gemma.windows = windows_of(&is_local, sliding_window(config, Some(4096))?);
    gemma.attention.score_cap = soft_cap(config, "attn_logit_softcapping", Some(50.0))?;
    gemma.logits.cap = soft_cap(config, "final_logit_softcapping", Some(30.0))?;
    Ok(gemma)
}

/// The keys that the third generation has in common.
pub(super) fn resolve_common(config: &ModelConfig, defaults: &Defaults) -> Result<DecoderConfig> {
    gemma::refuse_both_directions(config)?;
    let mut gemma = resolve_capped(config, defaults)?;
    set_attention_bias(config, &mut gemma)?;
    gemma.hidden_act = Activation::from_config(config, "hidden_activation", defaults.hidden_act)?;
    gemma.norm_scale = Scale::OnePlusWeight;
    gemma.norms = NormPlacement::BeforeAndAfter;
    gemma.embedding_scale = Some((gemma.hidden_size as f64).sqrt());
    gemma.attention.scale = config.positive_or("query_pre_attn_scalar", 256.0)?.powf(-0.5);
    Ok(gemma)
}

/// A cap, `default` where the file is silent; null has none.
pub(super) fn soft_cap(
    config: &ModelConfig,
    key: &str,
    default: Option<f64>,
) -> Result<Option<f64>> {
    match config.keys().get(key) {
        None => Ok(default),
        Some(value) if value.is_null() => Ok(None),
        Some(_) => config.positive_or(key, 1.0).map(Some),
    }
}
