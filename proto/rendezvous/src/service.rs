//! The gRPC service of host 0.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::rounds::{Exchanged, Rounds};
use crate::values::Values;
use crate::watch::{HostReport, Watch, WatchSettings};
use crate::wire::rendezvous_server::Rendezvous;
use crate::wire::{
    Answer, ExchangeRequest, ExchangeResponse, GetRequest, GetResponse, Heartbeat, JoinRequest,
    JoinResponse, LeaveRequest, LeaveResponse, Member, PutRequest, PutResponse, Verdict,
};

/// The longest time that a call waits before the caller repeats it.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);

/// A cloneable handle to the state that all calls share.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    size: u32,
    session: u64,
    values: Values,
    rounds: Rounds,
    watch: Mutex<Watch>,
    /// The process of each host that joined.
    incarnations: Mutex<HashMap<u32, u64>>,
    /// Warnings of other hosts that host 0 has not taken yet, with their names.
    warnings: Mutex<Vec<String>>,
}

impl Service {
    pub(crate) fn new(size: u32, session: u64, settings: WatchSettings) -> Service {
        let shared = Shared {
            size,
            session,
            values: Values::default(),
            rounds: Rounds::new(size),
            watch: Mutex::new(Watch::new(size, settings, Instant::now())),
            incarnations: Mutex::default(),
            warnings: Mutex::default(),
        };
        Service { shared: Arc::new(shared) }
    }

    /// Whether all hosts but host 0 have left or lost their connection.
    pub(crate) fn is_alone(&self) -> bool {
        let watch = self.watch();
        (1..self.shared.size).all(|rank| watch.is_gone(rank))
    }

    /// Takes the warnings of other hosts.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.shared.warnings))
    }

    /// The newest reports of all hosts.
    pub(crate) fn reports(&self) -> Vec<HostReport> {
        self.watch().reports()
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        lock(&self.shared.watch)
    }

    /// Registers the process of a host. Another process of the same host can take its place until the
    /// hosts have met.
    fn join(&self, member: &Member) -> Result<(), Status> {
        let mut incarnations = lock(&self.shared.incarnations);
        let known = incarnations.get(&member.rank).copied();
        let is_new = known.is_some_and(|known| known != member.incarnation);
        if is_new && self.shared.rounds.restart(member.rank).is_err() {
            self.watch().restarted(member.rank);
            let rank = member.rank;
            let problem =
                format!("host {rank} was started again while the job ran; start all hosts again");
            return Err(Status::failed_precondition(problem));
        }
        incarnations.insert(member.rank, member.incarnation);
        Ok(())
    }

    /// Refuses callers that have not joined, or joined another server or in an earlier process.
    fn check(&self, member: Option<Member>) -> Result<Member, Status> {
        let member = member.ok_or_else(|| Status::invalid_argument("the caller is missing"))?;
        let known = lock(&self.shared.incarnations).get(&member.rank).copied();
        match known == Some(member.incarnation) && member.session == self.shared.session {
            true => Ok(member),
            false => {
                let rank = member.rank;
                let problem = format!("host {rank} belongs to another start of the job");
                Err(Status::failed_precondition(problem))
            }
        }
    }

    /// Takes a heartbeat; returns the answer.
    fn hear(&self, member: Member, mut heartbeat: Heartbeat) -> Answer {
        let warnings = std::mem::take(&mut heartbeat.warnings);
        lock(&self.shared.warnings)
            .extend(warnings.into_iter().map(|text| format!("host {}: {text}", member.rank)));
        let now = Instant::now();
        let mut watch = self.watch();
        watch.heard(member.rank, heartbeat, now);
        let verdict = watch.verdict(now);
        let (host, first) = watch.first();
        Answer {
            verdict,
            phase: first.phase.clone(),
            step: first.step,
            host: host.to_owned(),
            cores: first.cores.clone(),
        }
    }

    /// Answers the heartbeats of a host until its connection breaks.
    async fn follow(
        self,
        mut from: Streaming<Heartbeat>,
        to: mpsc::Sender<Result<Answer, Status>>,
    ) {
        let mut followed = None;
        while let Some(Ok(mut heartbeat)) = from.next().await {
            let answer = match self.check(heartbeat.member.take()) {
                Ok(member) => {
                    followed = Some(member.rank);
                    Ok(self.hear(member, heartbeat))
                }
                Err(status) => Err(status),
            };
            if to.send(answer).await.is_err() {
                break;
            }
        }
        if let Some(rank) = followed {
            self.watch().disconnected(rank, Instant::now());
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait(milliseconds: u32) -> Duration {
    Duration::from_millis(u64::from(milliseconds)).min(WAIT_MAX)
}

#[tonic::async_trait]
impl Rendezvous for Service {
    type FollowStream = ReceiverStream<Result<Answer, Status>>;

    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinResponse>, Status> {
        let JoinRequest { member, size, host } = request.into_inner();
        let member = member.ok_or_else(|| Status::invalid_argument("the caller is missing"))?;
        let known = self.shared.size;
        if size != known || member.rank >= known {
            let rank = member.rank;
            let problem = format!("host {rank} counts {size} hosts, and host 0 counts {known}");
            return Err(Status::failed_precondition(problem));
        }
        Service::join(self, &member)?;
        self.watch().named(member.rank, host);
        Ok(Response::new(JoinResponse { session: self.shared.session }))
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let PutRequest { member, key, value } = request.into_inner();
        self.check(member)?;
        self.shared.values.put(&key, value);
        Ok(Response::new(PutResponse {}))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let GetRequest { member, key, wait_ms } = request.into_inner();
        self.check(member)?;
        let value = self.shared.values.get(&key, wait(wait_ms)).await;
        Ok(Response::new(GetResponse { value }))
    }

    async fn exchange(
        &self,
        request: Request<ExchangeRequest>,
    ) -> Result<Response<ExchangeResponse>, Status> {
        let ExchangeRequest { member, channel, round, part, receives, wait_ms } =
            request.into_inner();
        let member = self.check(member)?;
        let place = (channel.as_str(), round);
        let exchanged = self.shared.rounds.exchange(place, member.rank, part, wait(wait_ms)).await;
        Ok(Response::new(match exchanged {
            Exchanged::Complete(parts) => {
                let parts = if receives { parts.to_vec() } else { Vec::new() };
                ExchangeResponse { complete: true, missing: Vec::new(), parts }
            }
            Exchanged::Missing(missing) => {
                ExchangeResponse { complete: false, missing, parts: Vec::new() }
            }
        }))
    }

    async fn follow(
        &self,
        request: Request<Streaming<Heartbeat>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(Service::follow(self.clone(), request.into_inner(), sender));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn leave(
        &self,
        request: Request<LeaveRequest>,
    ) -> Result<Response<LeaveResponse>, Status> {
        let LeaveRequest { member, failure } = request.into_inner();
        let member = self.check(member)?;
        self.watch().left(member.rank, failure.map(|it| Verdict { rank: member.rank, ..it }));
        Ok(Response::new(LeaveResponse {}))
    }
}
