//! Changes to jobs that a cluster places.

use super::{Job, Store, StoreError};
use crate::jobs::cluster::ClusterJob;
use crate::jobs::limits::clip;
use crate::jobs::state::{JobState, Transition};

/// The longest list of a job's hosts.
const HOSTS_BYTES_MAX: usize = 64 << 10;

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
                draft.hold_from(Some(draft.now.wall));
                draft.job.host_names = hosts.to_owned();
                clip(&mut draft.job.host_names, HOSTS_BYTES_MAX);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::state::Outcome;
    use crate::jobs::store::NewJob;
    use traind_proto::v1;

    /// A user can make a cluster say megabytes of a job, or another cluster answer.
    #[test]
    fn long_words_of_a_cluster_are_cut() {
        const WORDS_MAX: usize = 128 << 10;
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        store
            .create(&NewJob { id: "a".into(), engine: "slurm".into(), ..NewJob::default() })
            .unwrap();
        store.place("a", &[]).unwrap();
        let long = "é".repeat(4 << 20);
        let waits = store.wait_in_cluster("a", &long).unwrap();
        assert_eq!(store.wait_in_cluster("a", &long).unwrap().last_sequence, waits.last_sequence);
        store.begin_in_cluster("a", &long).unwrap();
        store.restart_in_cluster("a", 1, &long).unwrap();
        let failure = v1::Failure { message: long.clone(), host: Some(long), ..Default::default() };
        let job = store.settle("a", Outcome::Failed, Some(failure)).unwrap();
        let failure = job.failure.unwrap();
        let words = [&waits.waiting_reason, &job.host_names, &failure.message];
        assert!(words.iter().all(|it| it.len() <= WORDS_MAX), "{:?}", words.map(String::len));
        let events = store.events(job.number, 1, 100).unwrap();
        let bytes: usize = events.iter().map(prost::Message::encoded_len).sum();
        assert!(bytes < WORDS_MAX, "{bytes} bytes in {} events", events.len());
    }
}
