//! `traind.v1.Jobs`.

use std::sync::Arc;

use prost::Message;
use tonic::{Request, Response, Status};
use traind_proto::v1;

use super::{host_log, plans, profiles, programs, samples, watch};
use crate::clock;
use crate::control::admission::Submission;
use crate::control::charge::Charge;
use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::interfaces::convert;
use crate::interfaces::server::guard::{audited, peer};
use crate::interfaces::server::quota::Quota;
use crate::interfaces::server::stream::Messages;
use crate::jobs::run_dir::RunDir;
use crate::jobs::state::JobState;
use crate::jobs::store::Job;
use crate::jobs::wire;

const PAGE_SIZE_DEFAULT: usize = 100;
const PAGE_SIZE_MAX: i32 = 1000;
/// The most streams of hosts' events of one user: each has a batch of a log in memory.
const HOST_LOGS_OF_USER_MAX: usize = 64;
/// Half of what clients take: jobs have words of their users.
const PAGE_BYTES_MAX: usize = 8 << 20;

pub(crate) struct Jobs {
    daemon: Arc<Daemon>,
    host_logs: Quota,
}

impl Jobs {
    pub(crate) fn new(daemon: Arc<Daemon>) -> Jobs {
        Jobs { daemon, host_logs: Quota::new(HOST_LOGS_OF_USER_MAX) }
    }

    /// Refuses new work while the daemon closes.
    fn admit(&self) -> Result<(), Error> {
        if self.daemon.closing.is_cancelled() { Err(Error::ShuttingDown) } else { Ok(()) }
    }

    fn present(&self, job: Job) -> v1::Job {
        present(&self.daemon, job)
    }

    /// Refuses new jobs while the daemon drains or closes.
    fn admit_job(&self) -> Result<(), Error> {
        if self.daemon.draining.is_cancelled() { Err(Error::Draining) } else { self.admit() }
    }
}

/// Converts a job, with its position in the queue if it waits.
pub(crate) fn present(daemon: &Daemon, job: Job) -> v1::Job {
    if job.state != JobState::Pending {
        return convert::job(job);
    }
    let queue = daemon.queue.get();
    let (forecast, reason) = (queue.forecast(&job.id), queue.reason(&job.id));
    let job = convert::job(job);
    v1::Job {
        queue_position: forecast.as_ref().map_or(0, |forecast| forecast.position),
        estimated_start_time: forecast.and_then(|f| f.start).map(clock::timestamp),
        waiting_reason: reason.unwrap_or(job.waiting_reason),
        ..job
    }
}

/// Converts a job as [`present`], with statistics of its splits.
pub(crate) async fn present_with_data(daemon: &Daemon, job: Job) -> Result<v1::Job, Error> {
    let number = job.number;
    let data = daemon.store.run(move |store| store.splits(number)).await?;
    Ok(v1::Job { data, ..present(daemon, job) })
}

#[tonic::async_trait]
impl v1::jobs_server::Jobs for Jobs {
    type ListProgramsStream = Messages<v1::ProgramPiece>;
    type ProfileJobStream = Messages<v1::ProfilePiece>;
    type WatchHostStream = Messages<v1::Event>;
    type WatchJobStream = Messages<v1::Event>;

    async fn create_job(
        &self,
        request: Request<v1::CreateJobRequest>,
    ) -> Result<Response<v1::Job>, Status> {
        self.admit_job()?;
        let (caller, note) = (peer::caller(&request)?, audited::note(&request));
        note.request_id(&request.get_ref().request_id);
        let submission = Submission::new(request.into_inner(), caller)?;
        let job = self.daemon.create(submission).await?;
        note.subject(&job.id);
        Ok(Response::new(self.present(job)))
    }

    async fn fork_job(
        &self,
        request: Request<v1::ForkJobRequest>,
    ) -> Result<Response<v1::Job>, Status> {
        self.admit_job()?;
        let (caller, note) = (peer::caller(&request)?, audited::note(&request));
        note.request_id(&request.get_ref().request_id);
        let job = self.daemon.fork(request.into_inner(), caller).await?;
        note.subject(&job.id);
        Ok(Response::new(self.present(job)))
    }

    async fn adopt_run(
        &self,
        request: Request<v1::AdoptRunRequest>,
    ) -> Result<Response<v1::Job>, Status> {
        self.admit_job()?;
        let (caller, note) = (peer::caller(&request)?, audited::note(&request));
        let job = self.daemon.adopt(request.into_inner(), caller).await?;
        note.subject(&job.id);
        Ok(Response::new(self.present(job)))
    }

    async fn plan_job(
        &self,
        request: Request<v1::PlanJobRequest>,
    ) -> Result<Response<v1::Plan>, Status> {
        let caller = peer::caller(&request)?;
        let plan = plans::plan(&self.daemon, caller, request.into_inner()).await?;
        Ok(Response::new(plan))
    }

    async fn get_job(
        &self,
        request: Request<v1::GetJobRequest>,
    ) -> Result<Response<v1::Job>, Status> {
        let caller = peer::caller(&request)?;
        let job = self.daemon.get(&request.get_ref().job_id, caller.scope()).await?;
        Ok(Response::new(present_with_data(&self.daemon, job).await?))
    }

    async fn list_jobs(
        &self,
        request: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        let scope = peer::caller(&request)?.scope();
        let page = Page::parse(request.get_ref())?;
        let (size, before) = (page.size, page.before);
        let list = move |store: &crate::jobs::store::Store| {
            store.list(&page.states, scope.as_deref(), before, size + 1)
        };
        let jobs = self.daemon.store.run(list).await.map_err(Error::from)?;
        let jobs = jobs.into_iter().map(|job| (job.number, self.present(job)));
        Ok(Response::new(page_of(jobs, size)))
    }

    async fn watch_job(
        &self,
        request: Request<v1::WatchJobRequest>,
    ) -> Result<Response<Self::WatchJobStream>, Status> {
        self.admit()?;
        let scope = peer::caller(&request)?.scope();
        let request = request.into_inner();
        let job = self.daemon.get(&request.job_id, scope).await?;
        let from = request.from_sequence.max(1);
        Ok(Response::new(watch::events(self.daemon.clone(), job, from)))
    }

    async fn watch_host(
        &self,
        request: Request<v1::WatchHostRequest>,
    ) -> Result<Response<Self::WatchHostStream>, Status> {
        self.admit()?;
        let caller = peer::caller(&request)?;
        let v1::WatchHostRequest { job_id, host, follow } = request.into_inner();
        let job = self.daemon.get(&job_id, caller.scope()).await?;
        host_log::check(&job, host)?;
        let permit = self.host_logs.take(&caller.user);
        let permit = permit.ok_or(Error::Busy { what: "streams of hosts' events for one user" })?;
        Ok(Response::new(host_log::events(self.daemon.clone(), job, host, follow, permit)))
    }

    async fn cancel_job(
        &self,
        request: Request<v1::CancelJobRequest>,
    ) -> Result<Response<v1::Job>, Status> {
        let (by, note) = (peer::caller(&request)?, audited::note(&request));
        note.subject(&request.get_ref().job_id);
        let job = self.daemon.cancel(&request.get_ref().job_id, &by).await?;
        note.subject(&job.id);
        Ok(Response::new(self.present(job)))
    }

    async fn get_samples(
        &self,
        request: Request<v1::GetSamplesRequest>,
    ) -> Result<Response<v1::Samples>, Status> {
        let scope = peer::caller(&request)?.scope();
        let v1::GetSamplesRequest { job_id, step } = request.into_inner();
        let job = self.daemon.get(&job_id, scope).await?;
        let run_dir = RunDir::new(&self.daemon.settings.state_dir, &job.id);
        Ok(Response::new(samples::of_step(&run_dir, step).await?))
    }

    async fn generate_texts(
        &self,
        request: Request<v1::GenerateTextsRequest>,
    ) -> Result<Response<v1::GeneratedTexts>, Status> {
        self.admit()?;
        let caller = peer::caller(&request)?;
        let request = request.into_inner();
        let job = self.daemon.get(&request.job_id, caller.scope()).await?;
        let (generator, settings) = (&self.daemon.generator, &self.daemon.settings);
        let charge = Charge::new(&self.daemon.store, settings, &caller.user);
        tokio::select! {
            texts = generator.generate(settings, &job, &request, charge) => Ok(Response::new(texts?)),
            () = self.daemon.closing.cancelled() => Err(Error::ShuttingDown.into()),
        }
    }

    async fn list_programs(
        &self,
        request: Request<v1::ListProgramsRequest>,
    ) -> Result<Response<Self::ListProgramsStream>, Status> {
        self.admit()?;
        let scope = peer::caller(&request)?.scope();
        let v1::ListProgramsRequest { job_id, with_text } = request.into_inner();
        let job = self.daemon.get(&job_id, scope).await?;
        let run_dir = RunDir::new(&self.daemon.settings.state_dir, &job.id);
        Ok(Response::new(programs::of_job(self.daemon.clone(), run_dir, with_text)))
    }

    async fn profile_job(
        &self,
        request: Request<v1::ProfileJobRequest>,
    ) -> Result<Response<Self::ProfileJobStream>, Status> {
        self.admit()?;
        let scope = peer::caller(&request)?.scope();
        let v1::ProfileJobRequest { job_id, steps } = request.into_inner();
        let job = self.daemon.get(&job_id, scope).await?;
        Ok(Response::new(profiles::of_job(self.daemon.clone(), job, steps).await?))
    }
}

/// A validated request for a page. Its token is the number of the last job of the previous page.
struct Page {
    size: usize,
    before: i64,
    states: Vec<JobState>,
}

impl Page {
    fn parse(request: &v1::ListJobsRequest) -> Result<Page, Error> {
        let size = match request.page_size {
            0 => PAGE_SIZE_DEFAULT,
            size @ 1..=PAGE_SIZE_MAX => size as usize,
            size => {
                let description = format!("is {size}; must be 0 to {PAGE_SIZE_MAX}");
                return Err(Error::Request { field: "page_size", description });
            }
        };
        let before = match request.page_token.as_str() {
            "" => i64::MAX,
            token => token.parse().map_err(|_| Error::PageToken)?,
        };
        Ok(Page { size, before, states: distinct_states(&request.states)? })
    }
}

/// The first `size` jobs, and fewer where they are large. One more than requested shows that another page follows.
fn page_of(jobs: impl Iterator<Item = (i64, v1::Job)>, size: usize) -> v1::ListJobsResponse {
    let (mut page, mut bytes, mut last) = (v1::ListJobsResponse::default(), 0, 0);
    for (number, job) in jobs {
        bytes += job.encoded_len();
        if page.jobs.len() == size || (bytes > PAGE_BYTES_MAX && !page.jobs.is_empty()) {
            page.next_page_token = last.to_string();
            break;
        }
        last = number;
        page.jobs.push(job);
    }
    page
}

/// Each state once: every one becomes a part of the query, and a request has room for a million.
fn distinct_states(numbers: &[i32]) -> Result<Vec<JobState>, Error> {
    let mut states = Vec::new();
    for number in numbers {
        let state = known_state(*number)?;
        if !states.contains(&state) {
            states.push(state);
        }
    }
    Ok(states)
}

fn known_state(number: i32) -> Result<JobState, Error> {
    let state = v1::JobState::try_from(number).ok().and_then(wire::job_state_from_proto);
    let description = || format!("{number} is not a job state");
    state.ok_or_else(|| Error::Request { field: "states", description: description() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_jobs_make_several_pages() {
        let large = v1::Job { waiting_reason: "x".repeat(3 << 20), ..Default::default() };
        let all: Vec<(i64, v1::Job)> = (0..5).rev().map(|number| (number, large.clone())).collect();
        let listed = |before: i64, size: usize| {
            let rest = all.iter().filter(|(number, _)| *number < before).cloned();
            let page = page_of(rest.take(size + 1), size);
            (page.jobs.len(), page.next_page_token)
        };
        assert_eq!(listed(5, 100), (2, "3".to_owned()));
        assert_eq!(listed(3, 100), (2, "1".to_owned()));
        assert_eq!(listed(1, 100), (1, String::new()));
        assert_eq!(listed(5, 1), (1, "4".to_owned()));
        assert_eq!(listed(2, 2), (2, String::new()));
    }

    #[test]
    fn a_million_states_are_as_many_as_there_are() {
        let states = [v1::JobState::Running, v1::JobState::Failed].map(i32::from);
        let request = v1::ListJobsRequest { states: states.repeat(500_000), ..Default::default() };
        let page = Page::parse(&request).ok().unwrap();
        assert_eq!(page.states, [JobState::Running, JobState::Failed]);
        let unknown = v1::ListJobsRequest { states: vec![99], ..Default::default() };
        assert!(Page::parse(&unknown).is_err());
    }
}
