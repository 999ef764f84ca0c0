//! What every part of a run shares.

use std::path::PathBuf;
use std::time::Instant;

use traind_job_file::RunSpec;
use traind_loader::Held;

use super::{Activity, Journal, Stop};

#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub spec: RunSpec,
    pub run_dir: PathBuf,
    pub journal: Journal,
    pub activity: Activity,
    pub stop: Stop,
    /// What is not to be removed from the cache as long as the run lasts.
    pub held: Held,
    pub started: Instant,
}
