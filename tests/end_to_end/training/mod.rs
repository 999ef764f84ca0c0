//! Training: its arguments, its metrics and its results.

mod accumulation;
mod adapters;
mod arguments;
mod data_parallel;
mod dpo;
mod evaluation;
mod fsdp;
mod kernels;
mod meshes;
mod one_core;
mod pipeline;
mod schedule_free;
mod sft;
mod shards;
mod tensor_parallel;
mod warm_start;
