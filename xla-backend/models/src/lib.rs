//! Hugging Face models on the tensors of `traind-xla`: what a model is made of,
//! how it is named and stored, and how an optimizer moves it. Everything here
//! traces operations or works on host arrays; devices belong to the caller.
//!
//! - [`cache`]: the keys and values that generation keeps between tokens.
//! - [`config`]: `config.json`, whole, with typed getters.
//! - [`gguf`]: model folders from files of llama.cpp.
//! - [`registry`]: from (`model_type`, task) to a [`Model`].
//! - `families`, [`layers`], [`tasks`]: the forward passes. A family joins a
//!   body, which reads tokens, with a head, which answers a task.
//! - [`optimizers`], [`clip`], [`lr_schedules`]: one update.
//! - [`parameter_shards`]: parameters of which each core stores a part.
//! - [`sentence`]: sentence-transformers' files of models that embed texts.
//! - [`tensor_parallel`]: the division of layers over cores.
//! - [`tuning`]: what of a model is trained: frozen parameters, adapters.
//! - [`weights`]: loading, initializing and saving by Hugging Face's names.
//!
//! One group of modules refer to each other. [`model`]'s forward pass carries the adapters of
//! [`tuning`], which [`layers`] apply, and [`weights`] initializes and removes adapters, whose
//! files [`tuning`] reads and writes.

mod body;
pub mod cache;
mod chunks;
pub mod clip;
pub mod config;
mod config_aliases;
pub mod cross_encoder;
mod decoder;
mod encoder;
pub mod error;
mod excerpts;
mod families;
mod family;
pub mod flops;
pub mod gguf;
mod heads;
pub mod layers;
pub mod lr_schedules;
pub mod model;
pub mod optimizers;
pub mod parameter_shards;
pub mod parameters;
pub mod registry;
mod rope;
pub mod sentence;
mod seq2seq;
pub mod tasks;
pub mod tensor_parallel;
pub mod tuning;
pub mod weights;

pub use cache::{CacheEntry, CacheKind, KeyValueCache};
pub use chunks::Chunks;
pub use config::{ModelConfig, PixelNormalization};
pub use error::{Error, Result};
pub use excerpts::{Excerpts, LongerExcerpt, runs_of_layers};
pub use model::{
    Batch, Forward, HiddenStates, InputDim, InputRole, InputSpec, Lengths, LossSum, Model, Output,
    OutputKind, PACKED_TOKENS, PADDED_TOKENS, ParameterTensors,
};
pub use parameters::{Dimension, Init, ParameterSpec, PartialGradient, Partition, Role, Stage};
pub use tasks::Task;
pub use tensor_parallel::{Logits, Sharding, TensorCores};
