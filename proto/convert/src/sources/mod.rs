//! A file for each tool, with the tables of its keys.

mod adapters;
pub(crate) mod axolotl;
pub(crate) mod deepspeed;
mod entries;
pub(crate) mod examples;
pub(crate) mod hub;
pub(crate) mod llama_factory;
pub(crate) mod sagemaker;
pub(crate) mod training_arguments;
pub(crate) mod trl;
mod validation;
