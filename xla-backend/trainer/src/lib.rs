//! A training step of Hugging Face models on the cores of one or several hosts, as a library.
//!
//! - [`Trainer`]: one model in training, with batches that are in memory: forward and backward passes and updates by
//!   themselves, many steps at once, state in folders, and several sets of adapters on one frozen model.
//! - [`train_loop`]: launches steps ahead of their results, for a [`Conductor`](train_loop::Conductor) that has the
//!   batches and decides rates, pauses and ends.
//! - [`step`]: records the programs: forward and backward pass, collectives, clipping and update.
//! - [`state`]: the variables on the cores that last from step to step.
//! - [`session`]: compiles the programs in the order of their first use, and launches them. It
//!   reports to an [`Observer`](session::Observer).
//!
//! A [`StepConfig`](step::StepConfig) has all settings. Its default trains in float32 with AdamW on
//! one core. `examples/train.rs` trains a model folder on two, and saves config and weights; the files of the tokenizer
//! stay those of the folder. An optimizer of your own is
//! [`OptimizerConfig::own`](step::OptimizerConfig::own).
//!
//! Besides this package you need `traind-loader` for batches and tokenizers, `traind-models` for models and their
//! weights, and `traind-pjrt`, which finds the plugin.
//!
//! ```
//! use std::sync::Arc;
//!
//! use traind_loader::{ArrayValues, BatchArray, ModelInputs};
//! use traind_models::{Model, ModelConfig, Task, registry, weights};
//! use traind_trainer::Trainer;
//! use traind_trainer::session::open_plugin;
//! use traind_trainer::state::StartValues;
//! use traind_trainer::step::StepConfig;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let keys = serde_json::json!({
//! #     "model_type": "gpt2", "vocab_size": 8, "n_embd": 4, "n_layer": 1, "n_head": 1,
//! #     "n_positions": 4,
//! # });
//! # let config = ModelConfig::new("config.json", keys.as_object().ok_or("no keys")?.clone());
//! let model: Arc<Model> = registry::build(config, Task::CausalLm)?.into();
//! let parameters = weights::draw(model.as_ref(), 42)?.arrays;
//! let config = StepConfig::default();
//! let plugin = traind_pjrt::installed_plugin("cpu").ok_or("run `traind plugins install cpu`")?;
//! let cores = open_plugin(&plugin, "cpu", 1, config.mesh.mesh()?)?;
//! let start = StartValues { parameters, ..StartValues::default() };
//! let inputs = ModelInputs { token_type_ids: false, attention_mask: true, position_ids: false };
//! let mut trainer = Trainer::new(cores, model, inputs, &config, &start)?;
//! let tokens = ArrayValues::S32(vec![1, 2, 3, 4]);
//! let row = |name, values| BatchArray { name, dims: vec![1, 4], values };
//! let batch = [
//!     row("input_ids", tokens.clone()),
//!     row("attention_mask", ArrayValues::S32(vec![1; 4])),
//!     row("labels", tokens),
//! ];
//! trainer.add_batch(&batch)?;
//! let before = trainer.update(1e-2)?.loss;
//! trainer.add_batch(&batch)?;
//! assert!(trainer.update(1e-2)?.loss < before);
//! # Ok(())
//! # }
//! ```
//!
//! # The arrays of a batch
//!
#![doc = include_str!("arrays.md")]
#![warn(missing_docs)]

mod error;
pub mod session;
pub mod state;
pub mod step;
pub mod train_loop;
mod trainer;

pub use error::{Division, Error, Result};
pub use trainer::{Forwarded, Trainer};
