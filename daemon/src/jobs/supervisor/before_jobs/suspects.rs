//! Cores on which a run failed by its device. They get no job until a test has cleared them: a failure alone accuses
//! no core, since runners belong to users, who can report what they like.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use traind_proto::{reasons, v1};

use crate::jobs::store::Job;

/// The suspect cores, with the job that failed on each.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    by_core: Mutex<BTreeMap<u32, String>>,
    changed: Notify,
}

impl Suspects {
    /// Suspects the cores of a job whose device failed.
    pub(in crate::jobs::supervisor) fn note(&self, job: &Job, failure: &v1::Failure) {
        if failure.reason != reasons::DEVICE_FAILED || job.is_elsewhere() {
            return;
        }
        tracing::warn!(job = job.id, cores = ?job.cores, "test the cores, since a device failed");
        self.by_core().extend(job.cores.iter().map(|core| (*core, job.id.clone())));
        self.changed.notify_one();
    }

    /// The suspect cores.
    pub(crate) fn cores(&self) -> Vec<u32> {
        self.by_core().keys().copied().collect()
    }

    /// Drops the suspicion against a core. Returns the job that gave rise to it.
    pub(crate) fn clear(&self, core: u32) -> Option<String> {
        self.by_core().remove(&core)
    }

    /// Completes when a core has become suspect.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn by_core(&self) -> MutexGuard<'_, BTreeMap<u32, String>> {
        self.by_core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
