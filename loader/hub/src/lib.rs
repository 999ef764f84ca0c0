//! Models and data sets by their ids on the Hugging Face hub, and trained models that are committed to it.
//!
//! A repository is taken from the cache where it is complete, else fetched. The cache has the
//! layout of `huggingface_hub`, so that either finds what the other fetched. A run pins the commits
//! that it starts with: after a restart it reads the same model and data, even where the branch has
//! moved.
//!
//! Crate `hf-hub` 1.0 is not used instead. It depends on the Xet client (73 crates that nothing else
//! here needs), starts an interrupted download over, compares no content with its checksum, and
//! cannot be stopped within a file.

mod cache;
mod card;
mod client;
mod data_sets;
mod download;
mod error;
mod fetch;
mod model_files;
mod models;
mod pin;
mod publish;
mod repository;
mod splits;

pub use data_sets::DataFile;
pub use error::{Error, Problem, Result};
pub use fetch::{Hub, Notice};
pub use models::{ModelRequest, cached_model, model_config};
pub use publish::{Commit, CommitFile, Keep, Publisher};
pub use repository::{Kind, Repository};
pub use splits::DataSetRequest;
