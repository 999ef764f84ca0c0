//! Qwen3 (Yang et al., 2025), as transformers' `Qwen3Model` computes it: a Llama whose
//! queries and keys are normalized head by head.

use super::family::{
    DecoderFamily, Defaults, decoder_keys, qwen_windows, resolve_llama, set_attention_bias,
};
use super::qwen2;
use crate::config::ModelConfig;
use crate::decoder::{DecoderConfig, QueryNorm};
use crate::error::Result;

pub(crate) const FAMILY: DecoderFamily = DecoderFamily {
    model_type: "qwen3",
    class: "Qwen3",
    classifier: Some("Qwen3"),
    keys: decoder_keys![
        "attention_bias",
        "use_sliding_window",
        "sliding_window",
        "max_window_layers",
        "layer_types",
    ],
    resolve,
};

const DEFAULTS: Defaults = Defaults { head_dim: Some(128), ..qwen2::DEFAULTS };

fn resolve(config: &ModelConfig) -> Result<DecoderConfig> {
    let mut qwen = resolve_llama(config, &DEFAULTS)?;
    qwen.windows = qwen_windows(config, qwen.windows.len())?;
    set_attention_bias(config, &mut qwen)?;
    qwen.attention.norm = QueryNorm::Heads;
    Ok(qwen)
}
