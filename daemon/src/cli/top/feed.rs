//! Updates for the screen from the daemon, with retries while the daemon is away.

use std::time::Duration;

use crate::cli::connect::client::Connection;
use tokio::sync::mpsc::Sender;
use tonic::Status;
use traind_proto::v1::cores_client::CoresClient;
use traind_proto::v1::jobs_client::JobsClient;
use traind_proto::v1::{
    CancelJobRequest, Job, JobState, ListJobsRequest, WatchCoresRequest, WatchJobRequest,
};

use super::app::Update;

const PERIOD: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_secs(2);
/// The most active jobs that are shown.
const ACTIVE_MAX: i32 = 1000;
/// The most waiting jobs that are shown.
const WAITING_MAX: i32 = 200;
/// The most finished jobs that are shown.
const ENDED_MAX: i32 = 30;

pub(super) struct Feed {
    jobs: JobsClient<Connection>,
    updates: Sender<Update>,
}

impl Feed {
    /// Starts to send updates of cores and jobs.
    pub(super) fn start(
        jobs: JobsClient<Connection>,
        cores: CoresClient<Connection>,
        updates: Sender<Update>,
    ) -> Feed {
        tokio::spawn(watch_cores(cores, updates.clone()));
        tokio::spawn(list_jobs(jobs.clone(), updates.clone()));
        Feed { jobs, updates }
    }

    /// Sends all events of a job from the first on.
    pub(super) fn follow(&self, job_id: String) {
        let (mut jobs, updates) = (self.jobs.clone(), self.updates.clone());
        tokio::spawn(async move {
            let mut from_sequence = 1;
            while let Err(status) = events(&mut jobs, &job_id, &mut from_sequence, &updates).await {
                if report(&updates, &status).await.is_err() {
                    return;
                }
                tokio::time::sleep(RETRY).await;
            }
        });
    }

    pub(super) fn cancel(&self, job_id: String) {
        let (mut jobs, updates) = (self.jobs.clone(), self.updates.clone());
        tokio::spawn(async move {
            if let Err(status) = jobs.cancel_job(CancelJobRequest { job_id }).await {
                let _ = report(&updates, &status).await;
            }
        });
    }
}

/// The screen was closed.
struct Closed;

async fn report(updates: &Sender<Update>, status: &Status) -> Result<(), Closed> {
    send(updates, Update::Error(status.message().to_owned())).await
}

async fn send(updates: &Sender<Update>, update: Update) -> Result<(), Closed> {
    updates.send(update).await.map_err(|_| Closed)
}

async fn watch_cores(mut cores: CoresClient<Connection>, updates: Sender<Update>) {
    loop {
        if let Err(status) = stream_cores(&mut cores, &updates).await
            && report(&updates, &status).await.is_err()
        {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn stream_cores(
    cores: &mut CoresClient<Connection>,
    updates: &Sender<Update>,
) -> Result<(), Status> {
    let mut readings = cores.watch_cores(WatchCoresRequest::default()).await?.into_inner();
    while let Some(reading) = readings.message().await? {
        if send(updates, Update::Cores(reading.cores)).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn list_jobs(mut jobs: JobsClient<Connection>, updates: Sender<Update>) {
    loop {
        let sent = match newest(&mut jobs).await {
            Ok(jobs) => send(&updates, Update::Jobs(jobs)).await,
            Err(status) => report(&updates, &status).await,
        };
        if sent.is_err() {
            return;
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Returns active, waiting and finished jobs, the newest first.
async fn newest(jobs: &mut JobsClient<Connection>) -> Result<Vec<Job>, Status> {
    use JobState::{Cancelled, Cancelling, Completed, Failed, Pending, Running, Starting};
    let mut found = Vec::new();
    let parts: [(&[JobState], i32); 3] = [
        (&[Pending], WAITING_MAX),
        (&[Starting, Running, Cancelling], ACTIVE_MAX),
        (&[Completed, Failed, Cancelled], ENDED_MAX),
    ];
    for (states, page_size) in parts {
        let states = states.iter().map(|state| (*state).into()).collect();
        let request = ListJobsRequest { page_size, states, ..Default::default() };
        found.extend(jobs.list_jobs(request).await?.into_inner().jobs);
    }
    // A job whose state changed between two requests is in both responses.
    found.sort_by_key(|job| {
        std::cmp::Reverse(job.create_time.map(|time| (time.seconds, time.nanos)))
    });
    found.dedup_by(|later, earlier| later.id == earlier.id);
    Ok(found)
}

async fn events(
    jobs: &mut JobsClient<Connection>,
    job_id: &str,
    from_sequence: &mut u64,
    updates: &Sender<Update>,
) -> Result<(), Status> {
    let request = WatchJobRequest { job_id: job_id.to_owned(), from_sequence: *from_sequence };
    let mut events = jobs.watch_job(request).await?.into_inner();
    while let Some(event) = events.message().await? {
        *from_sequence = event.sequence + 1;
        if send(updates, Update::Event(job_id.to_owned(), Box::new(event))).await.is_err() {
            break;
        }
    }
    Ok(())
}
