//! Phi-3 (Abdin et al., 2024), as transformers' `Phi3Model` computes it: a Llama whose
//! projections are joined and whose residuals are dropped out.

use super::family::{DecoderFamily, Defaults, LLAMA, decoder_keys, resolve_llama, sliding_window};
use crate::config::ModelConfig;
use crate::decoder::DecoderConfig;
use crate::error::Result;
use crate::layers::Rotary;

pub(crate) const FAMILY: DecoderFamily = DecoderFamily {
    model_type: "phi3",
    class: "Phi3",
    classifier: Some("Phi3"),
    keys: decoder_keys!["sliding_window", "resid_pdrop"],
    resolve,
};

const DEFAULTS: Defaults = Defaults {
    vocab_size: 32_064,
    hidden_size: 3072,
    intermediate_size: 8192,
    max_position_embeddings: 4096,
    rms_norm_eps: 1e-5,
    pad_token_id: Some(32_000),
    ..LLAMA
};

fn resolve(config: &ModelConfig) -> Result<DecoderConfig> {
    let mut phi = resolve_llama(config, &DEFAULTS)?;
    phi.windows.fill(sliding_window(config, None)?);
    phi.fused_projections = true;
    // As `Phi3ForCausalLM.prepare_inputs_for_generation`; other classes keep the keys that they turned before.
    let of_long = |rotary: &Rotary| rotary.long.as_ref().map(|long| long.positions);
    phi.rereads_beyond = phi.rotaries.iter().flatten().find_map(of_long);
    phi.residual_dropout = config.dropout_or("resid_pdrop", 0.0)?;
    Ok(phi)
}
