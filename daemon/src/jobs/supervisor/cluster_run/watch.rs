//! Carries a cluster's reports about a job over into the store.

use std::time::Instant;

use super::ClusterRun;
use crate::jobs::cluster::{ClusterError, Condition, EndKind, Report};
use crate::jobs::state::JobState;
use crate::jobs::store::{Job, Store, StoreError};

impl ClusterRun {
    /// Asks the cluster if it is time to, and stores changes. Returns the job if it changed.
    pub(in crate::jobs::supervisor) async fn watch(
        &mut self,
        store: &Store,
        job: &Job,
    ) -> Result<Option<Job>, StoreError> {
        if job.finished.is_some() && !self.has_finished {
            self.has_finished = true;
            self.hurry();
        }
        if self.waits_too_long(store, job) {
            let seconds = job.max_wait_seconds.unwrap_or_default();
            let reason = format!("waited longer than {seconds} s (resources.max_wait_seconds)");
            let id = job.id.clone();
            return Ok(Some(store.run(move |store| store.cancel(&id, &reason)).await?));
        }
        let report = match self.refresh().await {
            Ok(Some(report)) => report,
            Ok(None) => return Ok(None),
            Err(error) => return self.note(store, job, &error).await,
        };
        tracing::debug!(job = job.id, ?report, "asked the cluster");
        let (id, stored) = (job.id.clone(), store.clone());
        let changed = stored.run(move |store| carry_over(store, &id, report)).await;
        if changed.is_err() {
            // The change is reported again.
            self.report = None;
            self.hurry();
        }
        Ok(Some(changed?))
    }

    /// Notes that the cluster cannot be asked, once for each reason. The job continues meanwhile.
    async fn note(
        &mut self,
        store: &Store,
        job: &Job,
        error: &ClusterError,
    ) -> Result<Option<Job>, StoreError> {
        let trouble = error.to_string();
        if self.trouble == trouble {
            return Ok(None);
        }
        if !self.changes.permit(Instant::now()) {
            return Ok(None);
        }
        tracing::warn!(job = job.id, %error, "ask the cluster; will ask again");
        let reason = format!("{} cannot be asked about: {trouble}", self.job);
        self.trouble = trouble;
        let id = job.id.clone();
        Ok(Some(store.run(move |store| store.wait_in_cluster(&id, &reason)).await?))
    }

    /// Whether the job has no hosts although its time to wait for the first ones is over.
    fn waits_too_long(&self, store: &Store, job: &Job) -> bool {
        job.state == JobState::Starting
            && self.is_waiting()
            && job.wait_left(store.moment()).is_some_and(|left| left <= 0)
    }
}

fn carry_over(store: &Store, id: &str, report: Report) -> Result<Job, StoreError> {
    let mut job = store.get(id)?;
    if job.cluster_restarts < report.restarts && job.state != JobState::Cancelling {
        let cluster = job.cluster.as_ref().map(ToString::to_string).unwrap_or_default();
        job = store.restart_in_cluster(id, report.restarts, &format!("{cluster} was requeued"))?;
    }
    if let Condition::Suspended(_) = report.condition
        && !job.host_names.is_empty()
        && job.state != JobState::Cancelling
    {
        let cluster = job.cluster.as_ref().map(ToString::to_string).unwrap_or_default();
        let reason = format!("{cluster} was suspended");
        job = store.restart_in_cluster(id, report.restarts, &reason)?;
    }
    match report.condition {
        Condition::Waiting(reason) | Condition::Suspended(reason) => {
            store.wait_in_cluster(id, &reason)
        }
        Condition::Paused(reason) => store.pause_in_cluster(id, &reason),
        Condition::Running(_) => store.begin_in_cluster(id, &report.hosts),
        Condition::Ended(end) if end.kind != EndKind::Completed && job.host_names.is_empty() => {
            store.begin_in_cluster(id, &report.hosts)
        }
        Condition::Ended(_) | Condition::Unknown => Ok(job),
    }
}
