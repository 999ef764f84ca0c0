//! Mistral (Jiang et al., 2023), as transformers' `MistralModel` computes it: a Llama
//! whose tokens see a window of positions.

use super::family::{DecoderFamily, Defaults, LLAMA, decoder_keys, resolve_llama, sliding_window};
use crate::config::ModelConfig;
use crate::decoder::DecoderConfig;
use crate::error::Result;

pub(crate) const FAMILY: DecoderFamily = DecoderFamily {
    model_type: "mistral",
    class: "Mistral",
    classifier: Some("Mistral"),
    keys: decoder_keys!["sliding_window"],
    resolve,
};

const DEFAULTS: Defaults = Defaults {
    intermediate_size: 14_336,
    num_key_value_heads: Some(8),
    max_position_embeddings: 4096 * 32,
    ..LLAMA
};
const SLIDING_WINDOW: usize = 4096;

fn resolve(config: &ModelConfig) -> Result<DecoderConfig> {
    let mut mistral = resolve_llama(config, &DEFAULTS)?;
    mistral.windows.fill(sliding_window(config, Some(SLIDING_WINDOW))?);
    Ok(mistral)
}
