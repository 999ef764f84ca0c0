//! Changes to jobs that a cluster places.

use super::{Job, Store, StoreError};
use crate::clock;
use crate::jobs::cluster::ClusterJob;
use crate::jobs::state::{JobState, Transition};

impl Store {
    /// Stores the job that a cluster made of an attempt.
    pub(crate) fn submitted(&self, id: &str, submitted: &ClusterJob) -> Result<Job, StoreError> {
        self.edit(id, |draft| {
            draft.job.cluster = Some(submitted.clone());
            draft.job.cluster_restarts = 0;
            Ok(())
        })
    }

    /// Stores why a cluster lets a job wait. An unchanged reason is no event.
    pub(crate) fn wait_in_cluster(&self, id: &str, reason: &str) -> Result<Job, StoreError> {
        self.edit(id, |draft| draft.wait_in_cluster(reason))
    }

    /// Stores that the cluster has stopped a job's processes for a while, and why.
    pub(crate) fn pause_in_cluster(&self, id: &str, reason: &str) -> Result<Job, StoreError> {
        self.edit(id, |draft| draft.pause_in_cluster(reason))
    }

    /// Stores that a job has got its hosts, which it is billed for from now on, or that it continues on them.
    pub(crate) fn begin_in_cluster(&self, id: &str, hosts: &str) -> Result<Job, StoreError> {
        self.edit(id, |draft| {
            if matches!(draft.job.state, JobState::Starting | JobState::Running) {
                draft.job.waiting_reason.clear();
            }
            if draft.job.host_names.is_empty() {
                draft.job.place_time = Some(clock::now());
                draft.job.host_names = hosts.to_owned();
            }
            Ok(())
        })
    }

    /// Stores that the cluster itself has requeued a job, for the `restarts`th time: another attempt
    /// without another submission.
    pub(crate) fn restart_in_cluster(
        &self,
        id: &str,
        restarts: u32,
        reason: &str,
    ) -> Result<Job, StoreError> {
        self.edit(id, |draft| {
            draft.job.cluster_restarts = restarts;
            let (finished, attempt) = (draft.job.finished.clone(), draft.job.attempt);
            draft.apply(Transition::Requeue, reason)?;
            draft.place(&[], attempt)?;
            draft.job.finished = finished;
            Ok(())
        })
    }
}
