//! Models and data sets by hub id: from the Hugging Face cache if it has them, else from the hub.
//!
//! What is fetched lies in the cache as `huggingface_hub` lays it out, so that either finds what
//! the other fetched. A run remembers the commits that it began with: when it goes on after a
//! restart, model and data are the same, whatever became of the branch.
//!
//! Imports `output`, `control` and `error`.

mod asked;
mod cache;
mod card;
mod client;
mod data_sets;
mod download;
mod files;
mod models;
mod pin;
mod repository;
mod splits;

use std::path::PathBuf;

pub(crate) use data_sets::fetch as fetch_data;
pub(crate) use models::{config, fetch as fetch_model};

/// What the address of a data set begins with.
pub(crate) const DATA_SETS: &str = "hf://datasets/";

/// Why there is no model, or no data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HubProblem {
    #[error(
        "the hub shows none of that name; a private one takes HF_TOKEN in the daemon's \
         environment, and a folder begins with / or ./"
    )]
    NotFound,
    #[error("it has no revision {revision:?}")]
    NoRevision { revision: String },
    #[error(
        "its owner grants access one by one: ask for it on the hub, and set HF_TOKEN in the \
         daemon's environment"
    )]
    Gated,
    #[error("the hub does not accept the token in HF_TOKEN")]
    BadToken,
    #[error("it has no {file}")]
    NoFile { file: &'static str },
    #[error(
        "its weights are pickle files alone, which can run code when they are read; save it again \
         as safetensors"
    )]
    PickleOnly,
    #[error("it has no file {path}")]
    NoMatch { path: String },
    #[error("it has no data files that can be read; it has {found}")]
    NoData { found: String },
    #[error("it has no split {split}; it has {}", known.join(", "))]
    NoSplit { split: String, known: Vec<String> },
    #[error("it has no configuration {name}; it has {}", known.join(", "))]
    NoConfig { name: String, known: Vec<String> },
    #[error("it has several configurations; data.dataset_config_name is one of {}", known.join(", "))]
    WhichConfig { known: Vec<String> },
    #[error("{file} came otherwise than the hub says it is")]
    Corrupt { file: String },
    #[error("it is not in the cache {}, and {why}", .cache.display())]
    NotCached { cache: PathBuf, why: &'static str },
    #[error("the hub cannot be reached: {message}")]
    Unreachable { message: String },
    #[error("the hub answered with {status} to the request for {what}")]
    Refused { status: u16, what: String },
    #[error("the disk of {} has {available} bytes left, {file} has {bytes}", .cache.display())]
    DiskFull { cache: PathBuf, file: String, bytes: u64, available: u64 },
    #[error("{action} {}: {message}", .path.display())]
    Io { action: &'static str, path: PathBuf, message: String },
}
