//! The end of a restored job whose runners report to a folder that this host does not see: what the cluster says of it
//! is all that is known.

use super::Supervisor;
use super::launch::RESTORED;
use super::verdict::death_in_cluster;
use crate::jobs::cluster::{End, EndKind};
use crate::jobs::restored::Restored;
use crate::jobs::run_dir::RunDir;
use crate::jobs::state::{JobState, Outcome};
use crate::jobs::store::{Job, Store};

const FORGOTTEN: &str = "its cluster has no record any more of the job that ran when the backup was made; it resumes from \
                         its newest checkpoint";

impl Supervisor {
    /// Settles or requeues a job if it is such a one. Returns it otherwise.
    pub(super) async fn settle_unseen(
        &self,
        job: Job,
        run_dir: &RunDir,
        end: Option<&End>,
    ) -> Option<Job> {
        let restored = Restored::read(run_dir).ok().flatten();
        let restored = restored.filter(|it| it.follows.is_some() && run_dir.linked().is_none());
        let Some(restored) = restored.filter(|_| job.finished.is_none()) else { return Some(job) };
        let folder = restored.folder();
        let (id, cancelled) = (job.id.clone(), job.state == JobState::Cancelling);
        match end {
            _ if cancelled => self.settle(&job, Outcome::Cancelled, None).await,
            Some(end) if end.kind == EndKind::Completed => {
                let message = format!(
                    "{}, of which nothing else is known since the backup: its metrics are in {folder}, which is not \
                     visible here",
                    end.description
                );
                let warn = move |store: &Store| store.warn(&id, RESTORED, message.clone());
                self.store_durably(warn).await;
                self.settle(&job, Outcome::Completed, None).await;
            }
            Some(end) => {
                let said = format!("its output is in {folder}, which is not visible here");
                let failure = death_in_cluster(&job, end, &said);
                match failure.transient {
                    true => self.retry_run(&job, failure).await,
                    false => self.fail(&job, failure).await,
                }
            }
            None => {
                let reason = FORGOTTEN;
                self.store_durably(move |store| store.requeue(&id, reason)).await;
            }
        }
        None
    }
}
