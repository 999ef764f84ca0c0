//! Gemma, first generation (Mesnard et al., 2024), as transformers' `GemmaModel` computes
//! it: a Llama with scaled word embeddings and norms that start as zero.

use super::family::{
    DecoderFamily, Defaults, LLAMA, decoder_keys, resolve_llama, set_attention_bias,
};
use crate::config::ModelConfig;
use crate::decoder::DecoderConfig;
use crate::error::Result;
use crate::layers::{Activation, Scale};

pub(crate) const FAMILY: DecoderFamily = DecoderFamily {
    model_type: "gemma",
    class: "Gemma",
    classifier: Some("Gemma"),
    keys: decoder_keys!["attention_bias", "use_bidirectional_attention"],
    resolve,
};

pub(super) const DEFAULTS: Defaults = Defaults {
    vocab_size: 256_000,
    hidden_size: 3072,
    intermediate_size: 24_576,
    num_hidden_layers: 28,
    num_attention_heads: 16,
    num_key_value_heads: Some(16),
    head_dim: Some(256),
    max_position_embeddings: 8192,
    hidden_act: "gelu_pytorch_tanh",
    pad_token_id: Some(0),
    tie_word_embeddings: true,
    ..LLAMA
};

fn resolve(config: &ModelConfig) -> Result<DecoderConfig> {
    refuse_both_directions(config)?;
    let mut gemma = resolve_llama(config, &DEFAULTS)?;
    set_attention_bias(config, &mut gemma)?;
    gemma.norm_scale = Scale::OnePlusWeight;
    gemma.embedding_scale = Some((gemma.hidden_size as f64).sqrt());
    // The first releases say `gelu` and were trained with its approximation.
    if gemma.hidden_act == Activation::Gelu {
        gemma.hidden_act = Activation::GeluTanh;
    }
    Ok(gemma)
}

pub(super) fn refuse_both_directions(config: &ModelConfig) -> Result<()> {
    const KEY: &str = "use_bidirectional_attention";
    match config.bool_or(KEY, false)? {
        true => Err(config.error(KEY, "attention in both directions is not supported")),
        false => Ok(()),
    }
}
