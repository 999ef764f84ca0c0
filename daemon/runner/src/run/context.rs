//! Everything that a run starts with. Only this module passes it around; others take the parts that they
//! need.

use std::path::PathBuf;
use std::time::Instant;

use traind_cache::EntryLocks;
use traind_job_file::RunSpec;

use crate::hosts::{Hosts, MeetingPlace};
use crate::remote::Remote;
use crate::reporting::{Downloads, Reporter, Stop};

#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub spec: RunSpec,
    pub run_dir: PathBuf,
    pub reporter: Reporter,
    pub stop: Stop,
    /// The folders of the job that are in a bucket.
    pub remote: Remote,
    /// Locks the cache entries that the run uses.
    pub locks: EntryLocks,
    pub hosts: Hosts,
    /// Where the hosts meet, if a launcher started several.
    pub meeting_place: Option<MeetingPlace>,
    /// Whether the runner was started without a daemon.
    pub is_standalone: bool,
    pub started: Instant,
}

impl Context {
    pub(super) fn downloads(&self) -> Downloads {
        Downloads::new(
            self.spec.cache_dir.clone(),
            self.run_dir.clone(),
            self.locks.clone(),
            self.reporter.clone(),
            self.stop.clone(),
        )
    }
}
