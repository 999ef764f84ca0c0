//! Decoders with the layers of Llama: one file each.

mod family;
pub(crate) mod gemma;
pub(crate) mod gemma2;
pub(crate) mod gemma3;
pub(crate) mod granite;
pub(crate) mod llama;
pub(crate) mod mistral;
pub(crate) mod olmo2;
pub(crate) mod olmo3;
pub(crate) mod phi3;
pub(crate) mod qwen2;
pub(crate) mod qwen3;
pub(crate) mod smollm3;

pub(super) use family::{Defaults, LLAMA, decoder_keys, resolve_llama, set_attention_bias};
