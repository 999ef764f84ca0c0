//! `traind gc`.

use traind_proto::v1;
use traind_wording::counted;

use super::Global;
use super::connect::client;
use super::exit::Exit;
use super::show::table::print_table;
use crate::interfaces::text;
use crate::settings::Retention;
use crate::size;

/// Remove old jobs that have ended, with their logs and run folders; output folders are kept
#[derive(clap::Args)]
pub(crate) struct Gc {
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    keep: Keep,
}

/// Limits of the history.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct Keep {
    /// Keep the newest N jobs that have ended, and remove older ones with their logs and run folders
    /// [default: all]
    #[arg(long, value_name = "N")]
    keep_jobs: Option<u64>,
    /// Remove jobs, with their logs and run folders, N days after their end [default: never]
    #[arg(long, value_name = "N")]
    keep_days: Option<u32>,
}

impl Keep {
    pub(crate) fn retention(self) -> Retention {
        Retention { keep_jobs: self.keep_jobs, keep_days: self.keep_days }
    }
}

impl Gc {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let mut admin = client::admin(&global).await?;
        let Retention { keep_jobs, keep_days } = self.keep.retention();
        let dry_run = self.dry_run;
        let mut request =
            v1::RemoveJobsRequest { dry_run, keep_jobs, keep_days, page_token: String::new() };
        let (mut count, mut bytes) = (0, 0);
        loop {
            let page = admin.remove_jobs(request.clone()).await?.into_inner();
            count += page.jobs.len();
            bytes += page.jobs.iter().map(|job| job.bytes).sum::<u64>();
            if !page.jobs.is_empty() {
                let rows: Vec<_> = page.jobs.iter().map(row).collect();
                print_table(&["ID", "NAME", "OWNER", "ENDED", "SIZE"], &rows);
            }
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        let did = if dry_run { "would remove" } else { "removed" };
        println!("{did} {}, {}", counted(count, "job"), size::bytes(bytes));
        Ok(Exit::Done)
    }
}

fn row(job: &v1::RemovedJob) -> Vec<String> {
    vec![
        job.job_id.clone(),
        job.name.clone(),
        job.owner.clone(),
        text::age(job.end_time.as_ref()),
        size::bytes(job.bytes),
    ]
}
