//! What the daemon tells, as news for the screen. A daemon that is away is asked again.

use std::time::Duration;

use crate::cli::connect::client::Connection;
use tokio::sync::mpsc::Sender;
use tonic::Status;
use traind_proto::v1::cores_client::CoresClient;
use traind_proto::v1::jobs_client::JobsClient;
use traind_proto::v1::{
    CancelJobRequest, Job, JobState, ListJobsRequest, WatchCoresRequest, WatchJobRequest,
};

use super::app::News;

const PERIOD: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_secs(2);
/// Jobs that are at work and are shown.
const ACTIVE_MAX: i32 = 1000;
/// Jobs that wait and are shown.
const WAITING_MAX: i32 = 200;
/// Jobs that have ended and are shown.
const ENDED_MAX: i32 = 30;

pub(super) struct Feed {
    jobs: JobsClient<Connection>,
    news: Sender<News>,
}

impl Feed {
    /// Begins to tell of cores and jobs.
    pub(super) fn start(
        jobs: JobsClient<Connection>,
        cores: CoresClient<Connection>,
        news: Sender<News>,
    ) -> Feed {
        tokio::spawn(watch_cores(cores, news.clone()));
        tokio::spawn(list_jobs(jobs.clone(), news.clone()));
        Feed { jobs, news }
    }

    /// Tells all events of a job from its first on.
    pub(super) fn follow(&self, job_id: String) {
        let (mut jobs, news) = (self.jobs.clone(), self.news.clone());
        tokio::spawn(async move {
            let mut from_sequence = 1;
            while let Err(status) = events(&mut jobs, &job_id, &mut from_sequence, &news).await {
                if complain(&news, &status).await.is_err() {
                    return;
                }
                tokio::time::sleep(RETRY).await;
            }
        });
    }

    pub(super) fn cancel(&self, job_id: String) {
        let (mut jobs, news) = (self.jobs.clone(), self.news.clone());
        tokio::spawn(async move {
            if let Err(status) = jobs.cancel_job(CancelJobRequest { job_id }).await {
                let _ = complain(&news, &status).await;
            }
        });
    }
}

/// The screen is gone.
struct Gone;

async fn complain(news: &Sender<News>, status: &Status) -> Result<(), Gone> {
    tell(news, News::Trouble(status.message().to_owned())).await
}

async fn tell(news: &Sender<News>, what: News) -> Result<(), Gone> {
    news.send(what).await.map_err(|_| Gone)
}

async fn watch_cores(mut cores: CoresClient<Connection>, news: Sender<News>) {
    loop {
        if let Err(status) = stream_cores(&mut cores, &news).await
            && complain(&news, &status).await.is_err()
        {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn stream_cores(
    cores: &mut CoresClient<Connection>,
    news: &Sender<News>,
) -> Result<(), Status> {
    let mut readings = cores.watch_cores(WatchCoresRequest::default()).await?.into_inner();
    while let Some(reading) = readings.message().await? {
        if tell(news, News::Cores(reading.cores)).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn list_jobs(mut jobs: JobsClient<Connection>, news: Sender<News>) {
    loop {
        let told = match newest(&mut jobs).await {
            Ok(jobs) => tell(&news, News::Jobs(jobs)).await,
            Err(status) => complain(&news, &status).await,
        };
        if told.is_err() {
            return;
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// All that are at work, the newest that wait and that have ended; the newest first.
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
    // One that went on between two requests is in both.
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
    news: &Sender<News>,
) -> Result<(), Status> {
    let request = WatchJobRequest { job_id: job_id.to_owned(), from_sequence: *from_sequence };
    let mut events = jobs.watch_job(request).await?.into_inner();
    while let Some(event) = events.message().await? {
        *from_sequence = event.sequence + 1;
        if tell(news, News::Event(job_id.to_owned(), Box::new(event))).await.is_err() {
            break;
        }
    }
    Ok(())
}
