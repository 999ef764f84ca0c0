//! What the daemon hands to a runner: `run.json` in the run directory.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use traind_durable::Replacement;

use crate::schema::JobFile;

/// Name of the file in a run directory.
pub const RUN_SPEC_FILE: &str = "run.json";

/// Everything a runner has to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// Id of the job.
    pub job_id: String,
    /// Which run of the job this is: 1 for the first.
    pub attempt: u32,
    /// The job, resolved.
    pub job: JobFile,
    /// Indices of the cores to train on, as many as the job asked for.
    pub cores: Vec<u32>,
    /// Absolute path of the PJRT plugin.
    pub plugin: PathBuf,
    /// Folder for tokens and executables that later jobs can use again.
    pub cache_dir: PathBuf,
    /// Most bytes that fetched files, tokenized sets and executables take of it, but for those in
    /// use; `None` for no such limit.
    #[serde(default)]
    pub cache_bytes_max: Option<u64>,
    /// What the cores are, in words: "NVIDIA H200", or a CPU's model name.
    #[serde(default)]
    pub device_kind: String,
}

/// Why a `run.json` cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RunSpecError {
    /// A system call failed.
    #[error("{action} {}", path.display())]
    Io {
        /// What was tried, as a bare verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file does not hold a run.
    #[error("parse {}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl RunSpec {
    /// Reads the `run.json` of a run directory.
    pub fn read(run_dir: &Path) -> Result<Self, RunSpecError> {
        let path = run_dir.join(RUN_SPEC_FILE);
        let text = fs::read_to_string(&path).map_err(|source| RunSpecError::Io {
            action: "read",
            path: path.clone(),
            source,
        })?;
        serde_json::from_str(&text).map_err(|source| RunSpecError::Json { path, source })
    }

    /// Writes the `run.json` of a run directory so that a crash at any moment
    /// leaves the old file or the new one, whole. The folder may be another user's, who is to
    /// read the file.
    pub fn write(&self, run_dir: &Path) -> Result<(), RunSpecError> {
        let path = run_dir.join(RUN_SPEC_FILE);
        let text = serde_json::to_vec_pretty(self)
            .map_err(|source| RunSpecError::Json { path: path.clone(), source })?;
        let file = Replacement::of(&path).with_mode(0o644);
        file.write(|file| file.write_all(&text)).map_err(|source| RunSpecError::Io {
            action: "write",
            path,
            source,
        })
    }
}
