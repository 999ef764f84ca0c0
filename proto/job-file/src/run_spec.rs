//! `run.json` in the run directory, by which the daemon passes a job to a runner.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use traind_durable::{Replacement, read_regular};

use crate::schema::JobFile;

/// Name of the file in a run directory.
pub const RUN_SPEC_FILE: &str = "run.json";

/// Name of the folder in a run directory in which a preparation works while the job waits.
pub const PREPARATION_FOLDER: &str = "preparation";

/// The size of the largest file that is read.
const BYTES_MAX: u64 = 16 << 20;

/// The job and its environment, as the daemon passes them to a runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// Id of the job.
    pub job_id: String,
    /// The number of this run of the job, from 1.
    pub attempt: u32,
    /// The job, resolved.
    #[serde(serialize_with = "without_defaults")]
    pub job: JobFile,
    /// Indices of the cores to train on, as many as the job asked for.
    pub cores: Vec<u32>,
    /// Absolute path of the PJRT plugin.
    pub plugin: PathBuf,
    /// Folder of tokens and executables that later jobs can reuse.
    pub cache_dir: PathBuf,
    /// Upper limit of the bytes of fetched files, tokenized sets and executables in it, except for
    /// those in use; `None` for no limit.
    #[serde(default)]
    pub cache_bytes_max: Option<u64>,
    /// Description of the cores: "NVIDIA H200", or a CPU's model name.
    #[serde(default)]
    pub device_kind: String,
}

/// Why a `run.json` cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RunSpecError {
    /// A system call failed.
    #[error("{action} {}", path.display())]
    Io {
        /// The failed operation, as a bare verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file does not hold a run.
    #[error("parse {}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: serde_json::Error,
    },
}

impl RunSpec {
    /// Reads the `run.json` of a run directory.
    pub fn read(run_dir: &Path) -> Result<Self, RunSpecError> {
        let path = run_dir.join(RUN_SPEC_FILE);
        // The folder may be its user's, and the reader the daemon.
        let text = read_regular(&path, BYTES_MAX).map_err(|source| RunSpecError::Io {
            action: "read",
            path: path.clone(),
            source,
        })?;
        serde_json::from_slice(&text).map_err(|source| RunSpecError::Json { path, source })
    }

    /// Writes the `run.json` of a run directory so that a crash at any moment
    /// leaves either the old file or the new one. The folder may belong to another user, who can
    /// then read the file.
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

fn without_defaults<S: Serializer>(job: &JobFile, serializer: S) -> Result<S::Ok, S::Error> {
    job.without_defaults().map_err(S::Error::custom)?.serialize(serializer)
}
