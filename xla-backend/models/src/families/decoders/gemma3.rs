//! The language models of Gemma's third generation (Gemma Team, 2025), as transformers'
//! `Gemma3TextModel` computes them: queries and keys are normalized head by head, and of six layers,
//! five have a window and rotary embeddings of their own.

use super::family::{
    DecoderFamily, Defaults, decoder_keys, refuse_soft_caps, sliding_window, windows_of,
};
use super::gemma2;
use crate::config::ModelConfig;
use crate::decoder::{DecoderConfig, QueryNorm};
use crate::error::Result;
use crate::families::layer_types::local_layers;
use crate::rope::{self, LayerKind};

pub(crate) const FAMILY: DecoderFamily = DecoderFamily {
    model_type: "gemma3_text",
    class: "Gemma3",
    classifier: Some("Gemma3Text"),
    keys: decoder_keys![
        "attention_bias",
        "use_bidirectional_attention",
        "hidden_activation",
        "query_pre_attn_scalar",
        "sliding_window",
        "sliding_window_pattern",
        "layer_types",
        "rope_local_base_freq",
        "final_logit_softcapping",
    ],
    resolve,
};

const DEFAULTS: Defaults =
    Defaults { vocab_size: 262_208, max_position_embeddings: 131_072, ..gemma2::DEFAULTS };

const GLOBAL: LayerKind = LayerKind {
    section: Some("full_attention"),
    theta_key: "rope_theta",
    theta: 1_000_000.0,
    is_scaled: true,
};
const LOCAL: LayerKind = LayerKind {
    section: Some("sliding_attention"),
    theta_key: "rope_local_base_freq",
    theta: 10_000.0,
    is_scaled: false,
};

fn resolve(config: &ModelConfig) -> Result<DecoderConfig> {
    // transformers reads it of the second generation alone.
    refuse_soft_caps(config, &["attn_logit_softcapping"])?;
    let mut gemma = gemma2::resolve_common(config, &DEFAULTS)?;
    gemma.logits.cap = gemma2::soft_cap(config, "final_logit_softcapping", None)?;
    gemma.attention.norm = QueryNorm::Heads;
    let pattern = config.size_or("sliding_window_pattern", 6)?;
    let is_local =
        local_layers(config, gemma.windows.len(), |layer| !(layer + 1).is_multiple_of(pattern))?;
    let head_dim = gemma.attention.head_dim;
    let rotaries = rope::resolve_by_window(config, head_dim, &is_local, [&GLOBAL, &LOCAL])?;
    gemma.rotaries = rotaries.into_iter().map(Some).collect();
    gemma.windows = windows_of(&is_local, sliding_window(config, Some(4096))?);
    Ok(gemma)
}
