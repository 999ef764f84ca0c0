//! Models on the CPU plugin and checkpoints on disk.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::print_stdout, reason = "a test may print its measurements")]

mod adapter_keys;
mod adapters;
mod files;
mod fixture;
mod fixtures;
mod flops;
mod gathering;
mod gguf;
mod initial;
mod layers;
mod parameter_shards;
mod parameters;
mod precision;
mod scoring;
mod stages;
mod support;
mod tensor_parallel;
mod updates;
