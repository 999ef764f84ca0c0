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
//! A forward pass of a small model, recorded without a device:
//!
//! ```
//! use traind_models::{
//!     Batch, Forward, ModelConfig, ParameterTensors, Task, registry, weights,
//! };
//! use traind_xla::{DType, Shape, Trace};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let keys = serde_json::json!({
//!     "model_type": "gpt2", "vocab_size": 8, "n_embd": 4, "n_layer": 1, "n_head": 1,
//!     "n_positions": 4,
//! });
//! let keys = keys.as_object().ok_or("no keys")?.clone();
//! let model = registry::build(ModelConfig::new("config.json", keys), Task::CausalLm)?;
//! let drawn = weights::draw(&model, 42)?.arrays;
//! assert_eq!(drawn.len(), model.parameters().len());
//!
//! let trace = Trace::new();
//! let mut tensors = Vec::new();
//! for spec in model.parameters() {
//!     tensors.push((spec.name.clone(), trace.parameter(&spec.name, spec.shape.clone())?));
//! }
//! let mut batch = Batch::new();
//! for name in ["input_ids", "attention_mask", "labels"] {
//!     batch.insert(name, trace.parameter(name, Shape::new(DType::S32, [2, 4]))?);
//! }
//! let sample_weights = trace.parameter("sample_weights", Shape::new(DType::F32, [2]))?;
//! batch.insert("sample_weights", sample_weights);
//! let cx = Forward {
//!     trace: &trace,
//!     parameters: &ParameterTensors::new(tensors),
//!     random: None,
//!     gradient_checkpointing: false,
//!     adapters: None,
//!     cache: None,
//!     embedding_noise: None,
//! };
//! let output = model.forward(&cx, &batch)?;
//! assert_eq!(output.logits.values.dims(), [2, 4, 8]);
//! assert!(output.loss.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! One group of modules refers to itself. [`model`]'s forward pass carries the adapters of
//! [`tuning`], which [`layers`] apply, and [`weights`] initializes and removes adapters, whose
//! files [`tuning`] reads and writes.

#![warn(missing_docs)]

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
pub use config::{ModelConfig, PixelNormalization, TokenGenerator};
pub use error::{Error, Result};
pub use excerpts::{Excerpts, LongerExcerpt, runs_of_layers};
pub use model::{
    Batch, Forward, HiddenStates, IGNORED_LABEL, InputDim, InputRole, InputSpec, InputValues,
    Lengths, LossSum, Model, Output, OutputKind, PACKED_TOKENS, PADDED_LENGTH, PADDED_TOKENS,
    PREDICTED_SLOTS, PREDICTED_TOKENS, ParameterTensors,
};
pub use parameters::{Dimension, Init, ParameterSpec, PartialGradient, Partition, Role, Stage};
pub use tasks::Task;
pub use tensor_parallel::{Logits, Sharding, TensorCores};
