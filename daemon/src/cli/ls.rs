//! `traind ls`.

use clap::ValueEnum;
use traind_proto::v1;
use traind_wording::counted;

use super::Global;
use super::connect::client;
use super::exit::Exit;
use super::show::job_view::JobView;
use super::show::list::{ListFormat, print_json};
use super::show::table::print_table;
use crate::interfaces::text;
use crate::jobs::one_line::one_line;

/// List jobs, newest first
#[derive(clap::Args)]
pub(crate) struct Ls {
    /// Only jobs in this state; may be given several times
    #[arg(long, value_enum)]
    state: Vec<State>,
    /// List at most this many jobs
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: ListFormat,
}

#[derive(Clone, Copy, ValueEnum)]
enum State {
    Pending,
    Starting,
    Running,
    Cancelling,
    Completed,
    Failed,
    Cancelled,
}

impl Ls {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let jobs = client::jobs(&global).await?;
        let states: Vec<i32> = self.state.iter().map(|state| state.to_proto().into()).collect();
        let mut listed = Vec::new();
        let mut page_token = String::new();
        while listed.len() < self.limit {
            let page_size = (self.limit - listed.len()).min(1000) as i32;
            let request = v1::ListJobsRequest { page_size, page_token, states: states.clone() };
            let list = || {
                let (mut jobs, request) = (jobs.clone(), request.clone());
                async move { jobs.list_jobs(request).await }
            };
            let page = client::retry(list).await?;
            listed.extend(page.jobs);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        match self.output {
            ListFormat::Table => {
                let rows: Vec<_> = listed.iter().map(row).collect();
                print_table(&["ID", "NAME", "STATE", "CORES", "STEP", "LOSS", "AGE", ""], &rows);
                if let Some(line) = left_out(listed.len(), &page_token) {
                    eprintln!("{line}");
                }
            }
            ListFormat::Json => print_json(listed.into_iter().map(JobView::from))?,
        }
        Ok(Exit::Done)
    }
}

/// A line for a list that ends before the jobs do.
fn left_out(listed: usize, next_page_token: &str) -> Option<String> {
    (!next_page_token.is_empty()).then(|| {
        format!("the newest {}; there are more, which `--limit N` lists", counted(listed, "job"))
    })
}

fn row(job: &v1::Job) -> Vec<String> {
    let progress = job.progress.as_ref();
    let step = progress.map(|step| format!("{}/{}", step.step, step.max_steps));
    let cores = match job.cores.as_slice() {
        [] => job.core_count.to_string(),
        cores => format!("{} ({})", job.core_count, list(cores)),
    };
    vec![
        job.id.clone(),
        job.name.clone(),
        text::state(job.state()),
        cores,
        step.unwrap_or_default(),
        progress.map(|step| text::number(step.loss)).unwrap_or_default(),
        text::age(job.create_time.as_ref()),
        remark(job),
    ]
}

/// Why the job waits, was cancelled or failed, in one line.
fn remark(job: &v1::Job) -> String {
    match &job.failure {
        Some(failure) => format!("{}: {}", failure.reason, one_line(&failure.message)),
        None if job.queue_position > 0 => waiting(job),
        None if !job.cancel_reason.is_empty() => job.cancel_reason.clone(),
        None => job.waiting_reason.clone(),
    }
}

/// "#2, in about 3m20s: needs 2 cores, ...".
fn waiting(job: &v1::Job) -> String {
    let wait = text::until(job.estimated_start_time.as_ref());
    let wait = wait.map(|wait| format!(", in about {wait}")).unwrap_or_default();
    format!("#{}{wait}: {}", job.queue_position, job.waiting_reason)
}

fn list(cores: &[u32]) -> String {
    let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
    cores.join(",")
}

impl State {
    fn to_proto(self) -> v1::JobState {
        match self {
            State::Pending => v1::JobState::Pending,
            State::Starting => v1::JobState::Starting,
            State::Running => v1::JobState::Running,
            State::Cancelling => v1::JobState::Cancelling,
            State::Completed => v1::JobState::Completed,
            State::Failed => v1::JobState::Failed,
            State::Cancelled => v1::JobState::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::left_out;

    #[test]
    fn a_list_that_ends_early_says_so() {
        assert_eq!(left_out(7, ""), None);
        let line = left_out(100, "next").unwrap_or_default();
        assert!(line.contains("newest 100 jobs") && line.contains("--limit"), "{line}");
    }
}
