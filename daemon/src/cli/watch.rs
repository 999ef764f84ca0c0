//! `traind watch`.

use super::Global;
use super::connect::client;
use super::exit::Exit;
use super::show::follow;

/// Follow a job to its end with a progress bar; Ctrl-C stops following, not the job
#[derive(clap::Args)]
pub(crate) struct Watch {
    /// The job's id, a prefix of it, or its name
    job: String,
}

impl Watch {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let jobs = client::jobs(&global).await?;
        let job = client::get_job(&jobs, &self.job).await?;
        follow::follow(jobs, client::cores(&global).await?, &job).await
    }
}
