//! OLMo 3 (OLMo et al., 2025), as transformers' `Olmo3Model` computes it: an OLMo 2 of whose four layers, three have a
//! window. Scaled rotary embeddings are those of the other layers alone.

use super::family::{DecoderFamily, decoder_keys, sliding_window, windows_of};
use super::olmo2;
use crate::config::ModelConfig;
use crate::decoder::DecoderConfig;
use crate::error::Result;
use crate::families::layer_types::local_layers;
use crate::rope::{self, LayerKind};

pub(crate) const FAMILY: DecoderFamily = DecoderFamily {
    model_type: "olmo3",
    class: "Olmo3",
    classifier: Some("Olmo3"),
    keys: decoder_keys!["attention_bias", "sliding_window", "layer_types"],
    resolve,
};

/// Layers of which the last one sees all positions.
const PATTERN: usize = 4;
const WINDOW: usize = 4096;
const THETA: f64 = 500_000.0;

const GLOBAL: LayerKind = LayerKind {
    section: Some("full_attention"),
    theta_key: "rope_theta",
    theta: THETA,
    is_scaled: true,
};
const LOCAL: LayerKind = LayerKind {
    section: Some("sliding_attention"),
    theta_key: "rope_theta",
    theta: THETA,
    is_scaled: false,
};

fn resolve(config: &ModelConfig) -> Result<DecoderConfig> {
    let mut olmo = olmo2::resolve(config)?;
    let layers = olmo.windows.len();
    let is_local = local_layers(config, layers, |layer| !(layer + 1).is_multiple_of(PATTERN))?;
    let head_dim = olmo.attention.head_dim;
    let rotaries = rope::resolve_by_window(config, head_dim, &is_local, [&GLOBAL, &LOCAL])?;
    olmo.rotaries = rotaries.into_iter().map(Some).collect();
    olmo.windows = windows_of(&is_local, sliding_window(config, Some(WINDOW))?);
    Ok(olmo)
}
