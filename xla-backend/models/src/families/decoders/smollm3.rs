//! SmolLM3 (Bakouch et al., 2025), as transformers' `SmolLM3Model` computes it: a Llama of which
//! every fourth layer has no positions.

use super::family::{
    DecoderFamily, Defaults, LLAMA, decoder_keys, resolve_llama, set_attention_bias,
    sliding_window, windows_of,
};
use crate::config::ModelConfig;
use crate::decoder::DecoderConfig;
use crate::error::Result;
use crate::families::layer_types::local_layers;

pub(crate) const FAMILY: DecoderFamily = DecoderFamily {
    model_type: "smollm3",
    class: "SmolLM3",
    classifier: Some("SmolLM3"),
    keys: decoder_keys![
        "attention_bias",
        "mlp_bias",
        "no_rope_layers",
        "no_rope_layer_interval",
        "use_sliding_window",
        "sliding_window",
        "layer_types",
    ],
    resolve,
};

const DEFAULTS: Defaults = Defaults {
    vocab_size: 128_256,
    hidden_size: 2048,
    num_hidden_layers: 36,
    num_attention_heads: 16,
    num_key_value_heads: Some(4),
    max_position_embeddings: 32_768,
    pad_token_id: Some(128_004),
    rope_theta: 2_000_000.0,
    tie_word_embeddings: true,
    ..LLAMA
};

fn resolve(config: &ModelConfig) -> Result<DecoderConfig> {
    let mut smol = resolve_llama(config, &DEFAULTS)?;
    set_attention_bias(config, &mut smol)?;
    smol.mlp_bias = config.bool_or("mlp_bias", false)?;
    let rotated = rotated_layers(config, smol.windows.len())?;
    let has_windows = config.bool_or("use_sliding_window", false)?;
    let is_local = local_layers(config, rotated.len(), |layer| has_windows && !rotated[layer])?;
    let window = sliding_window(config, None)?.filter(|_| has_windows);
    smol.windows = windows_of(&is_local, window);
    for (rotary, rotated) in smol.rotaries.iter_mut().zip(rotated) {
        *rotary = rotary.take().filter(|_| rotated);
    }
    Ok(smol)
}

/// Whether each layer has positions: 1 in `no_rope_layers`, or else all layers but every one of
/// `no_rope_layer_interval`.
fn rotated_layers(config: &ModelConfig, layers: usize) -> Result<Vec<bool>> {
    const KEY: &str = "no_rope_layers";
    let Some(flags) = config.keys().get(KEY).filter(|value| !value.is_null()) else {
        let interval = config.size_or("no_rope_layer_interval", 4)?;
        return Ok((1..=layers).map(|layer| !layer.is_multiple_of(interval)).collect());
    };
    let number = |flag: &serde_json::Value| flag.as_u64().filter(|flag| *flag < 2);
    let flags = flags.as_array().into_iter().flatten().take(layers).map(number);
    let flags: Option<Vec<u64>> = flags.collect();
    match flags.filter(|flags| flags.len() == layers) {
        Some(flags) => Ok(flags.into_iter().map(|flag| flag == 1).collect()),
        None => Err(config.error(KEY, format!("expected 0 or 1 for each of {layers} layers"))),
    }
}
