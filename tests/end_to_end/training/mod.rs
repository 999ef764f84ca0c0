//! Training: its arguments, its metrics and its results.

mod accumulation;
mod adapters;
mod arguments;
mod data_parallel;
mod embeddings;
mod evaluation;
mod fsdp;
mod kernels;
mod losses;
mod meshes;
mod one_core;
mod optimizers;
mod packed_rows;
mod pipeline;
mod preferences;
mod rows;
mod schedule_free;
pub(crate) mod sft;
mod shards;
mod tensor_parallel;
mod warm_start;

use traind_tests::{Draft, Host};

pub(crate) use preferences::dpo::with_reference;

/// A job that trains a small Llama on packed conversations.
pub(crate) fn packed_draft(host: &Host, name: &str) -> Draft {
    sft::draft(host, name, "sft", &sft::fixture("sft/sft.json")).set("name", name)
}

/// A job that trains a small Llama on preference pairs.
pub(crate) fn pairs_draft(host: &Host, name: &str) -> Draft {
    preferences::dpo::pairs(host, name, &sft::fixture("dpo/dpo.json"), "sigmoid").set("name", name)
}
