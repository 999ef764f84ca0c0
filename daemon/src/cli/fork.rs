//! `traind fork`.

use std::collections::BTreeMap;

use traind_proto::v1;

use super::Global;
use super::connect::client;
use super::exit::Exit;
use super::show::follow;
use super::submit::{parse_override, print_submitted, request_id};

/// Submit a job that continues from a checkpoint of another job with other settings
#[derive(clap::Args)]
pub(crate) struct Fork {
    /// The other job's id, a prefix of it, or its name
    job: String,
    /// Continue from the checkpoint after this many steps; the newest by default
    #[arg(long, value_name = "STEP")]
    at: Option<u64>,
    /// Replace a value of the other job, such as train.learning_rate=3e-5
    #[arg(long, value_name = "FIELD=VALUE", value_parser = parse_override)]
    set: Vec<(String, String)>,
    /// Follow the job to its end
    #[arg(long)]
    watch: bool,
    /// Submit at most once with this id: a repeated request returns the first one's job
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

impl Fork {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let request_id = request_id(self.request_id)?;
        let overrides: BTreeMap<String, String> = self.set.into_iter().collect();
        let step = self.at.unwrap_or_default();
        let request = v1::ForkJobRequest { request_id, job_id: self.job, step, overrides };
        let jobs = client::jobs(&global).await?;
        // The request has an id, so retries do not create another job.
        let fork = || {
            let (mut jobs, request) = (jobs.clone(), request.clone());
            async move { jobs.fork_job(request).await }
        };
        let job = client::retry(fork).await?;
        print_submitted(&job);
        if !self.watch {
            return Ok(Exit::Done);
        }
        follow::follow(jobs, client::cores(&global).await?, &job).await
    }
}
