//! The reasons for which a repository cannot be had.

use std::io;
use std::path::{Path, PathBuf};

use super::{Kind, Repository};

pub type Result<T> = std::result::Result<T, Error>;

/// A repository that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("{} {}: {problem}", kind(repository.kind), repository.id)]
pub struct Error {
    pub repository: Repository,
    pub problem: Box<Problem>,
}

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error(
        "the hub has no repository of that name; a private one needs HF_TOKEN in the daemon's \
         environment, and a local folder begins with / or ./"
    )]
    NotFound,
    #[error("it has no revision {revision:?}")]
    NoRevision { revision: String },
    #[error(
        "its owner must grant access: request it on the hub, and set HF_TOKEN in the daemon's \
         environment"
    )]
    Gated,
    #[error("the hub does not accept the token in HF_TOKEN")]
    BadToken,
    #[error("it has no {file}")]
    NoFile { file: &'static str },
    #[error(
        "its weights are pickle files only, which can run code when they are read; save it again \
         as safetensors"
    )]
    PickleOnly,
    #[error("it has no file {path}")]
    NoMatch { path: String },
    #[error("it has no data files of a known format; it has {found}")]
    NoData { found: String },
    #[error("it has no split {split}; it has {}", known.join(", "))]
    NoSplit { split: String, known: Vec<String> },
    #[error("it has no configuration {name}; it has {}", known.join(", "))]
    NoConfig { name: String, known: Vec<String> },
    #[error(
        "it has several configurations; data.dataset_config_name is one of {}",
        known.join(", ")
    )]
    WhichConfig { known: Vec<String> },
    #[error("{file} does not match its description on the hub")]
    Corrupt { file: String },
    #[error("it is not in the cache {}, and {reason}", cache.display())]
    NotCached { cache: PathBuf, reason: &'static str },
    #[error("the hub cannot be reached: {message}")]
    Unreachable { message: String },
    #[error("HF_HUB_OFFLINE is set, so that nothing can be uploaded")]
    Offline,
    #[error(
        "uploading needs a token that may write to it: set HF_TOKEN in the daemon's environment"
    )]
    NoToken,
    #[error(
        "the token in HF_TOKEN may not write to it{}", if message.is_empty() { String::new() } else {
            format!(": {message}")
        }
    )]
    Forbidden { message: String },
    #[error("the hub answered {subject} with {status}: {message}")]
    Rejected { subject: String, status: u16, message: String },
    #[error("the hub's storage answered with {status}: {message}")]
    NotStored { status: u16, message: String },
    #[error("{file}: {problem}")]
    File { file: String, problem: Box<Problem> },
    #[error("the upload was abandoned")]
    Abandoned,
    #[error("the hub answered the request for {file} with {status}")]
    Refused { status: u16, file: String },
    #[error(
        "the disk of {} has {available} bytes left, and {file} has {bytes}",
        cache.display()
    )]
    DiskFull { cache: PathBuf, file: String, bytes: u64, available: u64 },
    #[error("{action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl Problem {
    /// Whether the same call may succeed later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NotStored { .. } => true,
            Self::File { problem, .. } => problem.may_pass(),
            _ => false,
        }
    }

    /// Names the file at fault.
    pub(crate) fn at_file(self, file: &str) -> Self {
        match self {
            Self::Abandoned => self,
            problem => Self::File { file: file.to_owned(), problem: Box::new(problem) },
        }
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Model => "model",
        Kind::DataSet => "data set",
    }
}

/// Turns an I/O error at `path` into a problem.
pub(crate) fn io_problem(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> Problem + use<> {
    let path = path.to_owned();
    move |source| Problem::Io { action, path, source }
}
