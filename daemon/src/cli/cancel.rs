//! `traind cancel`.

use traind_proto::v1;

use super::Global;
use super::connect::client;
use super::exit::Exit;
use crate::interfaces::text;

/// Cancel a job; a running one ends after its current step
#[derive(clap::Args)]
pub(crate) struct Cancel {
    /// The job's id, a prefix of it, or its name
    job: String,
}

impl Cancel {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let jobs = client::jobs(&global).await?;
        let cancel = || {
            let (mut jobs, job_id) = (jobs.clone(), self.job.clone());
            async move { jobs.cancel_job(v1::CancelJobRequest { job_id }).await }
        };
        let job = client::retry(cancel).await?;
        println!("{} {}", job.id, text::state(job.state()));
        Ok(Exit::Done)
    }
}
