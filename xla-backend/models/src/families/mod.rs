//! Model families: one file each, named as transformers names them.

pub(crate) mod albert;
pub(crate) mod bart;
pub(crate) mod bert;
pub(crate) mod deberta_v2;
pub(crate) mod decoders;
pub(crate) mod distilbert;
pub(crate) mod electra;
mod encoder_family;
pub(crate) mod eurobert;
pub(crate) mod gpt2;
pub(crate) mod gte;
pub(crate) mod jina_embeddings_v3;
mod layer_types;
pub(crate) mod modernbert;
pub(crate) mod mpnet;
pub(crate) mod nomic_bert;
pub(crate) mod roberta;
mod rotary_attention;
mod rotary_bert;
pub(crate) mod t5;
pub(crate) mod vit;
pub(crate) mod xlm_roberta_xl;
