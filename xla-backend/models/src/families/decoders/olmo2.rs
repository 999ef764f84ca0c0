//! OLMo 2 (OLMo et al., 2024), as transformers' `Olmo2Model` computes it: a Llama whose norms stand
//! behind attention and feed-forward network, and whose queries and keys are normalized.

use super::family::{
    DecoderFamily, Defaults, LLAMA, decoder_keys, resolve_llama, set_attention_bias,
};
use crate::config::ModelConfig;
use crate::decoder::{DecoderConfig, NormPlacement, QueryNorm};
use crate::error::Result;

pub(crate) const FAMILY: DecoderFamily = DecoderFamily {
    model_type: "olmo2",
    class: "Olmo2",
    classifier: Some("Olmo2"),
    keys: decoder_keys!["attention_bias"],
    resolve,
};

const DEFAULTS: Defaults =
    Defaults { vocab_size: 50_304, rms_norm_eps: 1e-5, pad_token_id: Some(1), ..LLAMA };

pub(super) fn resolve(config: &ModelConfig) -> Result<DecoderConfig> {
    let mut olmo = resolve_llama(config, &DEFAULTS)?;
    set_attention_bias(config, &mut olmo)?;
    olmo.norms = NormPlacement::After;
    olmo.attention.norm = QueryNorm::Whole;
    Ok(olmo)
}
