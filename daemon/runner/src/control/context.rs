//! What every part of a run shares.

use std::path::PathBuf;
use std::time::Instant;

use traind_cache::EntryLocks;
use traind_job_file::RunSpec;

use super::{Activity, Journal, Stop};

#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub spec: RunSpec,
    pub run_dir: PathBuf,
    pub journal: Journal,
    pub activity: Activity,
    pub stop: Stop,
    /// Cache entries that must not be evicted during the run.
    pub locks: EntryLocks,
    pub started: Instant,
}
