//! `traind.v1.Admin`.

use std::sync::Arc;
use std::time::Duration;

use tonic::{Request, Response, Status};
use traind_proto::v1::{
    DrainRequest, DrainResponse, ReadAuditRequest, ReadAuditResponse, RemoveJobsRequest,
    RemoveJobsResponse, RemovedJob, admin_server,
};
use traind_wording::counted;

use crate::clock;
use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::interfaces::server::guard::{audited, peer};
use crate::interfaces::server::stream::{self, Messages, Sender};
use crate::jobs::store::Removable;
use crate::settings::Retention;

const PERIOD: Duration = Duration::from_millis(100);
const REASON_CHARACTERS_MAX: usize = 500;

pub(crate) struct Admin {
    daemon: Arc<Daemon>,
}

impl Admin {
    pub(crate) fn new(daemon: Arc<Daemon>) -> Admin {
        Admin { daemon }
    }
}

#[tonic::async_trait]
impl admin_server::Admin for Admin {
    type DrainStream = Messages<DrainResponse>;

    async fn drain(
        &self,
        request: Request<DrainRequest>,
    ) -> Result<Response<Self::DrainStream>, Status> {
        let by = peer::caller(&request)?.user;
        let reason = request.into_inner().reason;
        let length = reason.chars().count();
        if length > REASON_CHARACTERS_MAX {
            let description =
                format!("has {length} characters; at most {REASON_CHARACTERS_MAX} are allowed");
            return Err(Error::Request { field: "reason", description }.into());
        }
        let reason = match reason {
            reason if reason.is_empty() => format!("drained by {by}"),
            reason => format!("drained by {by}: {reason}"),
        };
        self.daemon.drain(&reason);
        let (sender, receiver) = stream::channel(1);
        tokio::spawn(count_down(self.daemon.clone(), sender));
        Ok(Response::new(receiver))
    }

    async fn remove_jobs(
        &self,
        request: Request<RemoveJobsRequest>,
    ) -> Result<Response<RemoveJobsResponse>, Status> {
        let (by, note) = (peer::caller(&request)?.user, audited::note(&request));
        let RemoveJobsRequest { dry_run, keep_jobs, keep_days, page_token } = request.into_inner();
        let retention = Some(Retention { keep_jobs, keep_days })
            .filter(|retention| !retention.is_unlimited())
            .unwrap_or(self.daemon.settings.retention);
        if retention.is_unlimited() {
            let description = "set keep_jobs or keep_days, in the call or for the daemon";
            let description = description.to_owned();
            return Err(Error::Request { field: "keep_jobs", description }.into());
        }
        let after = match page_token.as_str() {
            "" => 0,
            token => token.parse().map_err(|_| Error::PageToken)?,
        };
        let page = self.daemon.remove_jobs(retention, dry_run, after).await?;
        note.subject(&format!(
            "{}{}",
            counted(page.jobs.len(), "job"),
            if dry_run { ", dry run" } else { "" }
        ));
        if !dry_run && !page.jobs.is_empty() {
            tracing::info!(jobs = page.jobs.len(), by, "removed old jobs");
        }
        let next_page_token = page.next.map(|next| next.to_string()).unwrap_or_default();
        let jobs = page.jobs.into_iter().map(removed).collect();
        Ok(Response::new(RemoveJobsResponse { jobs, next_page_token }))
    }

    async fn read_audit(
        &self,
        request: Request<ReadAuditRequest>,
    ) -> Result<Response<ReadAuditResponse>, Status> {
        let ReadAuditRequest { from, overflow } = request.into_inner();
        let lines = self.daemon.audited(from, overflow).await?;
        Ok(Response::new(ReadAuditResponse { lines }))
    }
}

fn removed(job: Removable) -> RemovedJob {
    RemovedJob {
        job_id: job.id,
        name: job.name,
        owner: job.owner,
        end_time: Some(clock::timestamp(job.end_time)),
        bytes: job.bytes,
    }
}

async fn count_down(daemon: Arc<Daemon>, sender: Sender<DrainResponse>) {
    let mut last = None;
    while last != Some(0) {
        // Checked first: a daemon that closes for another reason follows no runners either.
        let closing = daemon.closing.is_cancelled();
        let running = match daemon.drained.is_cancelled() {
            true => 0,
            false if closing => return drop(sender.send(Err(Error::ShuttingDown.into())).await),
            false => daemon.runner_count() as u32,
        };
        // None means that the daemon is drained, which takes it a moment more.
        let is_news = last != Some(running) && (running > 0 || daemon.drained.is_cancelled());
        if is_news {
            last = Some(running);
            if sender.send(Ok(DrainResponse { running })).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}
