//! The sections of the objectives that have settings of their own.

pub(crate) mod dpo;
pub(crate) mod embedding;
pub(crate) mod preferences;
pub(crate) mod replaced_tokens;
pub(crate) mod reranker;
pub(crate) mod set_loss;
