//! `traind adopt`.

use std::path::PathBuf;

use anyhow::Context;
use traind_proto::v1;

use super::Global;
use super::connect::client;
use super::exit::Exit;
use super::show::follow;
use super::submit::print_submitted;

/// Turn a run that was started without the daemon into a job that the daemon follows
#[derive(clap::Args)]
pub(crate) struct Adopt {
    /// The run's folder: `run` in its output folder
    #[arg(value_name = "RUN_DIR")]
    run_dir: PathBuf,
    /// Follow the job to its end
    #[arg(long)]
    watch: bool,
}

impl Adopt {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let run_dir = std::path::absolute(&self.run_dir).context("find the current directory")?;
        let run_dir = run_dir.to_str().context("the run folder is not UTF-8")?.to_owned();
        let jobs = client::jobs(&global).await?;
        // A run has one job, so retries do not create another one.
        let adopt = || {
            let (mut jobs, run_dir) = (jobs.clone(), run_dir.clone());
            async move { jobs.adopt_run(v1::AdoptRunRequest { run_dir }).await }
        };
        let job = client::retry(adopt).await?;
        print_submitted(&job);
        if !self.watch {
            return Ok(Exit::Done);
        }
        follow::follow(jobs, client::cores(&global).await?, &job).await
    }
}
