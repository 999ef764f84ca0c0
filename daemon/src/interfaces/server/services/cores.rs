//! `traind.v1.Cores`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tonic::{Request, Response, Status};
use traind_proto::v1;

use crate::clock;
use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::interfaces::convert;
use crate::interfaces::server::guard::{audited, peer};
use crate::interfaces::server::stream::{self, Messages};

const PERIOD_DEFAULT: Duration = Duration::from_secs(1);
const PERIOD_MS: std::ops::RangeInclusive<u32> = 100..=60_000;

pub(crate) struct Cores {
    daemon: Arc<Daemon>,
}

impl Cores {
    pub(crate) fn new(daemon: Arc<Daemon>) -> Cores {
        Cores { daemon }
    }
}

#[tonic::async_trait]
impl v1::cores_server::Cores for Cores {
    type WatchCoresStream = Messages<v1::WatchCoresResponse>;
    type TestCoresStream = Messages<v1::TestCoresResponse>;

    async fn list_cores(
        &self,
        request: Request<v1::ListCoresRequest>,
    ) -> Result<Response<v1::ListCoresResponse>, Status> {
        let cores = self.daemon.cores().await?;
        let cores = filter_platform(cores, &request.get_ref().platform);
        let fenced = self.daemon.fenced_hosts().await.map_err(Error::from)?;
        let fenced_hosts = fenced.into_iter().map(convert::fenced_host).collect();
        Ok(Response::new(v1::ListCoresResponse { cores, fenced_hosts }))
    }

    async fn return_cores(
        &self,
        request: Request<v1::ReturnCoresRequest>,
    ) -> Result<Response<v1::ReturnCoresResponse>, Status> {
        let (by, note) = (peer::caller(&request)?.user, audited::note(&request));
        let v1::ReturnCoresRequest { cores, hosts } = request.into_inner();
        note.subject(&subject_with_hosts(&cores, &hosts));
        self.daemon.return_cores(&cores, &hosts).await?;
        tracing::info!(?cores, ?hosts, by, "returned");
        Ok(Response::new(v1::ReturnCoresResponse {}))
    }

    async fn test_cores(
        &self,
        request: Request<v1::TestCoresRequest>,
    ) -> Result<Response<Self::TestCoresStream>, Status> {
        let (by, note) = (peer::caller(&request)?.user, audited::note(&request));
        let cores = request.into_inner().cores;
        note.subject(&subject(&cores));
        let claimed = self.daemon.claim_for_test(&cores).await?;
        tracing::info!(?cores, by, "test cores");
        let closing = self.daemon.closing.clone();
        Ok(Response::new(stream::fed(closing, 1, |sender| async move {
            for group in claimed.groups() {
                for (core, test) in claimed.test(&group).await? {
                    let message = v1::TestCoresResponse { core, test: Some(test) };
                    if sender.send(Ok(message)).await.is_err() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })))
    }

    async fn list_shares(
        &self,
        request: Request<v1::ListSharesRequest>,
    ) -> Result<Response<v1::ListSharesResponse>, Status> {
        let caller = peer::caller(&request)?;
        Ok(Response::new(self.daemon.shares(caller.scope()).await?))
    }

    async fn watch_cores(
        &self,
        request: Request<v1::WatchCoresRequest>,
    ) -> Result<Response<Self::WatchCoresStream>, Status> {
        let request = request.into_inner();
        let mut ticks = tokio::time::interval(period(request.period_ms)?);
        // A slow reader skips readings that it missed.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (sender, receiver) = stream::channel(1);
        let daemon = self.daemon.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = sender.closed() => return,
                    () = daemon.closing.cancelled() => {
                        let _ = sender.send(Err(Error::ShuttingDown.into())).await;
                        return;
                    }
                    _ = ticks.tick() => {}
                }
                let reading = reading(&daemon, &request.platform).await;
                if sender.send(reading).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(receiver))
    }
}

/// The cores of a call, for the audit log.
fn subject(cores: &[u32]) -> String {
    /// The most cores that are written.
    const CORES_MAX: usize = 64;
    format!("cores {:?}", &cores[..cores.len().min(CORES_MAX)])
}

/// The cores and hosts of a call, for the audit log.
fn subject_with_hosts(cores: &[u32], hosts: &[String]) -> String {
    /// The most hosts that are written.
    const HOSTS_MAX: usize = 16;
    match hosts {
        [] => subject(cores),
        _ => format!("{}, hosts {:?}", subject(cores), &hosts[..hosts.len().min(HOSTS_MAX)]),
    }
}

async fn reading(daemon: &Daemon, platform: &str) -> Result<v1::WatchCoresResponse, Status> {
    let cores = filter_platform(daemon.cores().await?, platform);
    Ok(v1::WatchCoresResponse { time: Some(clock::timestamp(clock::now())), cores })
}

fn filter_platform(mut cores: Vec<v1::Core>, platform: &str) -> Vec<v1::Core> {
    cores.retain(|core| platform.is_empty() || core.platform == platform);
    cores
}

fn period(milliseconds: u32) -> Result<Duration, Error> {
    match milliseconds {
        0 => Ok(PERIOD_DEFAULT),
        ms if PERIOD_MS.contains(&ms) => Ok(Duration::from_millis(u64::from(ms))),
        ms => {
            let (first, last) = (PERIOD_MS.start(), PERIOD_MS.end());
            let description = format!("is {ms}; must be 0 or {first} to {last}");
            Err(Error::Request { field: "period_ms", description })
        }
    }
}
