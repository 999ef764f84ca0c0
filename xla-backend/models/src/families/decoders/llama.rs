//! Llama (Touvron et al., 2023) and its successors up to 3.3, as transformers'
//! `LlamaModel` computes it.

use super::family::{DecoderFamily, LLAMA, decoder_keys, resolve_llama, set_attention_bias};
use crate::config::ModelConfig;
use crate::decoder::DecoderConfig;
use crate::error::Result;

pub(crate) const FAMILY: DecoderFamily = DecoderFamily {
    model_type: "llama",
    class: "Llama",
    classifier: Some("Llama"),
    keys: decoder_keys!["attention_bias", "mlp_bias"],
    resolve,
};

fn resolve(config: &ModelConfig) -> Result<DecoderConfig> {
    let mut llama = resolve_llama(config, &LLAMA)?;
    set_attention_bias(config, &mut llama)?;
    llama.mlp_bias = config.bool_or("mlp_bias", false)?;
    Ok(llama)
}
