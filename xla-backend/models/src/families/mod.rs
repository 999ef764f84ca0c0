//! Model families: one file each, named as transformers names them.

pub(crate) mod bart;
pub(crate) mod bert;
mod decoder_family;
pub(crate) mod distilbert;
mod encoder_family;
pub(crate) mod gemma;
pub(crate) mod gpt2;
pub(crate) mod llama;
pub(crate) mod mistral;
pub(crate) mod phi3;
pub(crate) mod qwen2;
pub(crate) mod qwen3;
pub(crate) mod roberta;
pub(crate) mod t5;
pub(crate) mod vit;
