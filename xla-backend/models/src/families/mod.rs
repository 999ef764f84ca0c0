//! Model families: one file each, named as transformers names them.

pub(crate) mod bart;
pub(crate) mod bert;
pub(crate) mod decoders;
pub(crate) mod distilbert;
mod encoder_family;
pub(crate) mod gpt2;
mod layer_types;
pub(crate) mod modernbert;
pub(crate) mod roberta;
pub(crate) mod t5;
pub(crate) mod vit;
