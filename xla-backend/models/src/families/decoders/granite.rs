//! Granite 3 (IBM, 2024), as transformers' `GraniteModel` computes it: a Llama with factors of
//! embeddings, scores, residuals and logits.

use super::family::{DecoderFamily, LLAMA, decoder_keys, resolve_llama, set_attention_bias};
use crate::config::ModelConfig;
use crate::decoder::DecoderConfig;
use crate::error::Result;

pub(crate) const FAMILY: DecoderFamily = DecoderFamily {
    model_type: "granite",
    class: "Granite",
    classifier: None,
    keys: decoder_keys![
        "attention_bias",
        "mlp_bias",
        "embedding_multiplier",
        "logits_scaling",
        "residual_multiplier",
        "attention_multiplier",
    ],
    resolve,
};

fn resolve(config: &ModelConfig) -> Result<DecoderConfig> {
    let mut granite = resolve_llama(config, &LLAMA)?;
    set_attention_bias(config, &mut granite)?;
    granite.mlp_bias = config.bool_or("mlp_bias", false)?;
    granite.attention.scale = config.positive_or("attention_multiplier", 1.0)?;
    granite.embedding_scale = Some(config.positive_or("embedding_multiplier", 1.0)?);
    granite.residual_scale = Some(config.positive_or("residual_multiplier", 1.0)?);
    granite.logits.divisor = Some(config.positive_or("logits_scaling", 1.0)?);
    Ok(granite)
}
