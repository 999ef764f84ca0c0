//! Follows a job to its end, across restarts of the daemon.

use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tonic::{Code, Status};
use traind_proto::v1::cores_client::CoresClient;
use traind_proto::v1::event::Kind;
use traind_proto::v1::jobs_client::JobsClient;
use traind_proto::v1::{Event, Job, WatchJobRequest};

use super::progress::Progress;
use crate::cli::connect::client::{self, Connection};
use crate::cli::exit::Exit;

/// How long the daemon may be away.
const AWAY_MAX: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(500);

/// Shows a job's progress until it ends or Ctrl-C is pressed, which leaves the job running.
pub(crate) async fn follow(
    jobs: JobsClient<Connection>,
    cores: CoresClient<Connection>,
    job: &Job,
) -> anyhow::Result<Exit> {
    let exit = until_detached(jobs, cores, job).await?;
    Ok(report_detached(job, exit))
}

/// Shows a job's progress until it ends or Ctrl-C is pressed.
pub(crate) async fn until_detached(
    jobs: JobsClient<Connection>,
    cores: CoresClient<Connection>,
    job: &Job,
) -> anyhow::Result<Exit> {
    let progress = Progress::new();
    let updates = progress
        .bar()
        .map(|bar| tokio::spawn(Progress::follow_steps(bar.clone(), cores, job.id.clone())));
    let exit = until_interrupted(jobs.clone(), job, |event| progress.show(event)).await;
    if let Some(updates) = updates {
        updates.abort();
    }
    let exit = exit?;
    progress.close();
    if exit != Exit::Detached {
        progress.print_result(&client::get_job(&jobs, &job.id).await?);
    }
    Ok(exit)
}

/// Calls `show` with every event of a job, the past ones first, until it ends or Ctrl-C is pressed.
pub(crate) async fn each_event(
    jobs: JobsClient<Connection>,
    job: &Job,
    show: impl FnMut(&Event),
) -> anyhow::Result<Exit> {
    let exit = until_interrupted(jobs, job, show).await?;
    Ok(report_detached(job, exit))
}

fn report_detached(job: &Job, exit: Exit) -> Exit {
    if exit == Exit::Detached {
        eprintln!(
            "\nstopped following; job {id} keeps running. Follow it again: traind watch {id}. Cancel it: traind cancel {id}",
            id = job.id
        );
    }
    exit
}

async fn until_interrupted(
    jobs: JobsClient<Connection>,
    job: &Job,
    mut show: impl FnMut(&Event),
) -> anyhow::Result<Exit> {
    // Handled before the first event is shown, so that Ctrl-C only stops following.
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        ended = until_end(jobs, &job.id, &mut show) => Ok(ended?),
        _ = interrupt.recv() => Ok(Exit::Detached),
    }
}

async fn until_end(
    mut jobs: JobsClient<Connection>,
    job_id: &str,
    show: &mut impl FnMut(&Event),
) -> Result<Exit, Status> {
    let mut from_sequence = 1;
    let mut away_since: Option<Instant> = None;
    loop {
        match stream(&mut jobs, job_id, &mut from_sequence, show).await {
            Ok(exit) => return Ok(exit),
            Err(status) if !is_absence(&status) => return Err(status),
            Err(status) => {
                let since = *away_since.get_or_insert_with(|| {
                    eprintln!("the daemon is away; the job keeps running; waiting for the daemon to return");
                    Instant::now()
                });
                if since.elapsed() > AWAY_MAX {
                    return Err(status);
                }
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

async fn stream(
    jobs: &mut JobsClient<Connection>,
    job_id: &str,
    from_sequence: &mut u64,
    show: &mut impl FnMut(&Event),
) -> Result<Exit, Status> {
    let request = WatchJobRequest { job_id: job_id.to_owned(), from_sequence: *from_sequence };
    let mut events = jobs.watch_job(request).await?.into_inner();
    let mut exit = Exit::Done;
    while let Some(event) = events.message().await? {
        *from_sequence = event.sequence + 1;
        if let Some(Kind::StateChanged(changed)) = &event.kind {
            exit = Exit::of(changed.to());
        }
        show(&event);
    }
    Ok(exit)
}

/// Whether the daemon is stopping or away. A broken stream has the code `Unknown`.
fn is_absence(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled)
}
