//! `traind-runner prepare`: gets the data and the programs of a waiting job into the caches.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::run_spec::RunSpec;

/// A request to prepare a job, which is one line of JSON: the process ends with the pipe that it comes from.
#[derive(Debug, Serialize, Deserialize)]
pub struct PrepareRequest {
    /// The run that the job will have.
    pub spec: RunSpec,
    /// A folder for the preparation alone, which is made and removed.
    pub folder: PathBuf,
}

/// The outcome of a preparation.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrepareAnswer {
    /// The caches have what the job needs.
    Prepared {
        /// The programs of the job; 0 where they are not compiled without cores.
        programs: u32,
        /// The programs that were not in the cache.
        compiled: u32,
        /// The time that the preparation took.
        seconds: f64,
    },
    /// The preparation failed.
    Failed {
        /// The error for users.
        message: String,
    },
}
