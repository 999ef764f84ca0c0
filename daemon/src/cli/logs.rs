//! `traind logs`.

use prost_types::Timestamp;
use traind_proto::v1::{self, Event};

use super::Global;
use super::connect::client;
use super::exit::Exit;
use super::show::follow;
use crate::interfaces::text::events;

/// Print a job's events, one per line
#[derive(clap::Args)]
pub(crate) struct Logs {
    /// The job's id, a prefix of it, or its name
    job: String,
    /// Continue until the job ends
    #[arg(long, short)]
    follow: bool,
    /// Print the log of one of the job's hosts, counted from 0; its warnings are also in the job's log
    #[arg(long, value_name = "NUMBER")]
    host: Option<u32>,
}

impl Logs {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let mut jobs = client::jobs(&global).await?;
        let job = client::get_job(&jobs, &self.job).await?;
        if let Some(host) = self.host {
            let request = v1::WatchHostRequest { job_id: job.id, host, follow: self.follow };
            let mut events = jobs.watch_host(request).await?.into_inner();
            while let Some(event) = events.message().await? {
                print(&event);
            }
            return Ok(Exit::Done);
        }
        if self.follow {
            return follow::each_event(jobs, &job, print).await;
        }
        let request = v1::WatchJobRequest { job_id: job.id, from_sequence: 1 };
        let mut events = jobs.watch_job(request).await?.into_inner();
        while let Some(event) = events.message().await? {
            print(&event);
            // Newer events are printed only with --follow.
            if event.sequence >= job.last_sequence {
                break;
            }
        }
        Ok(Exit::Done)
    }
}

/// Truncates a time to milliseconds, since daemon and runner have different precisions.
fn to_millis(time: Timestamp) -> Timestamp {
    Timestamp { nanos: time.nanos / 1_000_000 * 1_000_000, ..time }
}

fn print(event: &Event) {
    let time = event.time.map(|time| to_millis(time).to_string()).unwrap_or_default();
    for line in events::describe(event).lines() {
        println!("{time} {line}");
    }
}
