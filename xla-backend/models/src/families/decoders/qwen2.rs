//! Qwen2 and Qwen2.5 (Yang et al., 2024), as transformers' `Qwen2Model` computes it: a
//! Llama whose queries, keys and values have biases.

use super::family::{DecoderFamily, Defaults, LLAMA, decoder_keys, qwen_windows, resolve_llama};
use crate::config::ModelConfig;
use crate::decoder::DecoderConfig;
use crate::error::Result;

pub(crate) const FAMILY: DecoderFamily = DecoderFamily {
    model_type: "qwen2",
    class: "Qwen2",
    classifier: Some("Qwen2"),
    keys: decoder_keys!["use_sliding_window", "sliding_window", "max_window_layers", "layer_types"],
    resolve,
};

pub(super) const DEFAULTS: Defaults = Defaults {
    vocab_size: 151_936,
    intermediate_size: 22_016,
    num_key_value_heads: Some(32),
    max_position_embeddings: 32_768,
    ..LLAMA
};

fn resolve(config: &ModelConfig) -> Result<DecoderConfig> {
    let mut qwen = resolve_llama(config, &DEFAULTS)?;
    qwen.windows = qwen_windows(config, qwen.windows.len())?;
    qwen.attention.input_bias = true;
    Ok(qwen)
}
