//! The calls of a host, from any of its threads.

mod connect;
mod follow;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tonic::{Code, Status};

use crate::address::Address;
use crate::error::{RendezvousError, Result};
use crate::service::WAIT_MAX;
use crate::tls::JobKey;
use crate::watch::WatchSettings;
use crate::wire::{
    ExchangeRequest, ExchangeResponse, GetRequest, LeaveRequest, Member, PutRequest, Verdict,
};

use connect::{Joined, join};
pub use follow::HostState;

/// The time between two attempts of a call that did not reach host 0.
const RETRY: Duration = Duration::from_millis(100);
/// The time beyond its own wait in which a call must be answered.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The largest part of one round; larger ones are divided.
const PIECE_BYTES: usize = 4 << 20;

/// Where a host finds the others.
#[derive(Clone, Debug)]
pub struct Meeting {
    pub rank: u32,
    pub size: u32,
    /// The name of this host, as its cluster knows it.
    pub host: String,
    /// The address of host 0, if it is known before.
    pub coordinator: Option<Address>,
    /// The folder of the ticket, which all hosts see.
    pub folder: Option<PathBuf>,
    /// The key, where the environment holds it.
    pub key: Option<JobKey>,
    /// How long hosts wait for one another at the start.
    pub patience: Duration,
}

/// A cloneable handle by which a host calls the rendezvous.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    meeting: Meeting,
    joined: Joined,
    /// The number of the next round of each channel.
    rounds: Mutex<HashMap<String, u64>>,
    runtime: Runtime,
}

impl Client {
    /// Reaches host 0, with retries, and registers.
    pub fn join(meeting: Meeting) -> Result<Client> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("rendezvous")
            .enable_all()
            .build()
            .map_err(RendezvousError::Start)?;
        let joined = runtime.block_on(join(&meeting))?;
        let shared = Shared { meeting, joined, rounds: Mutex::default(), runtime };
        Ok(Client { shared: Arc::new(shared) })
    }

    pub fn rank(&self) -> u32 {
        self.shared.meeting.rank
    }

    pub fn size(&self) -> u32 {
        self.shared.meeting.size
    }

    /// Stores a value for all hosts.
    pub fn put(&self, key: &str, value: Vec<u8>) -> Result<()> {
        let request = || PutRequest {
            member: Some(self.member()),
            key: key.to_owned(),
            value: value.clone(),
        };
        self.block_on(self.repeat(None, async || {
            self.shared.joined.calls().put(self.timed(request(), Duration::ZERO)).await
        }))
        .map(drop)
    }

    /// Returns the value of a key, and waits for it until `wait` has passed.
    pub fn get(&self, key: &str, wait: Duration) -> Result<Vec<u8>> {
        let start = Instant::now();
        loop {
            let rest = wait.saturating_sub(start.elapsed());
            if let Some(value) = self.get_within(key, rest.min(WAIT_MAX))? {
                return Ok(value);
            }
            if start.elapsed() >= wait {
                return Err(RendezvousError::NoValue { key: key.to_owned(), waited: wait });
            }
        }
    }

    /// Returns the value of a key if there is one now.
    pub fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.get_within(key, Duration::ZERO)
    }

    /// Waits until all hosts have called this. `None` waits as long as all are alive.
    pub fn barrier(&self, channel: &str, wait: Option<Duration>) -> Result<()> {
        self.exchange(channel, Vec::new(), false, wait).map(drop)
    }

    /// Gives a part to all hosts, and returns those of all, by host.
    pub fn gather_all(&self, channel: &str, part: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        Ok(self.exchange(channel, part, true, None)?.parts)
    }

    /// Gives a part, and returns those of all hosts on host 0. Parts may be large.
    pub fn gather(&self, channel: &str, part: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let length = (part.len() as u64).to_le_bytes().to_vec();
        let lengths = self.gather_all(channel, length)?;
        let length = |bytes: &Vec<u8>| bytes.as_slice().try_into().map_or(0, u64::from_le_bytes);
        let longest = lengths.iter().map(length).max().unwrap_or_default();
        let mut gathered = vec![Vec::new(); self.size() as usize];
        let receives = self.rank() == 0;
        for piece in 0..longest.div_ceil(PIECE_BYTES as u64) as usize {
            let bytes = part.chunks(PIECE_BYTES).nth(piece).unwrap_or_default();
            let round = self.exchange(channel, bytes.to_vec(), receives, None)?;
            for (whole, bytes) in gathered.iter_mut().zip(round.parts) {
                whole.extend(bytes);
            }
        }
        // Frees the last pieces on the server.
        self.barrier(channel, None)?;
        Ok(receives.then_some(gathered))
    }

    /// Returns on all hosts what host 0 gives.
    pub fn broadcast(&self, channel: &str, bytes: Vec<u8>) -> Result<Vec<u8>> {
        let part = if self.rank() == 0 { bytes } else { Vec::new() };
        Ok(self.gather_all(channel, part)?.into_iter().next().unwrap_or_default())
    }

    /// Announces that this host ends; `failure` is the reason if it failed.
    pub fn leave(&self, failure: Option<Verdict>) -> Result<()> {
        let request = || LeaveRequest { member: Some(self.member()), failure: failure.clone() };
        let wait = Some(RETRY);
        self.block_on(self.repeat(wait, async || {
            self.shared.joined.calls().leave(self.timed(request(), Duration::ZERO)).await
        }))
        .map(drop)
    }

    /// Reports the state of this host every second, on a thread of the client. Calls `on_verdict` once, when
    /// all hosts must end.
    pub fn follow(
        &self,
        settings: WatchSettings,
        state: impl Fn() -> HostState + Send + Sync + 'static,
        on_verdict: impl FnOnce(Verdict) + Send + 'static,
    ) {
        let joined = self.shared.joined.clone();
        self.shared.runtime.spawn(async move {
            let verdict = follow::follow(joined, settings, state).await;
            // May block, and never return.
            std::thread::spawn(move || on_verdict(verdict));
        });
    }

    fn get_within(&self, key: &str, wait: Duration) -> Result<Option<Vec<u8>>> {
        let wait_ms = wait.as_millis() as u32;
        let request = || GetRequest { member: Some(self.member()), key: key.to_owned(), wait_ms };
        let response = self.block_on(self.repeat(None, async || {
            self.shared.joined.calls().get(self.timed(request(), wait)).await
        }))?;
        Ok(response.value)
    }

    /// Takes part in the next round of a channel. All hosts take part in the same rounds.
    fn exchange(
        &self,
        channel: &str,
        part: Vec<u8>,
        receives: bool,
        wait: Option<Duration>,
    ) -> Result<ExchangeResponse> {
        let (start, round) = (Instant::now(), self.next_round(channel));
        loop {
            let rest = wait.map_or(WAIT_MAX, |wait| wait.saturating_sub(start.elapsed()));
            let rest = rest.min(WAIT_MAX);
            let request = || ExchangeRequest {
                member: Some(self.member()),
                channel: channel.to_owned(),
                round,
                part: part.clone(),
                receives,
                wait_ms: rest.as_millis() as u32,
            };
            let response = self.block_on(self.repeat(None, async || {
                self.shared.joined.calls().exchange(self.timed(request(), rest)).await
            }))?;
            if response.complete {
                return Ok(response);
            }
            if let Some(waited) = wait.filter(|wait| start.elapsed() >= *wait) {
                let (channel, missing) = (channel.to_owned(), response.missing);
                return Err(RendezvousError::Missing {
                    channel,
                    missing,
                    size: self.size(),
                    waited,
                });
            }
        }
    }

    fn next_round(&self, channel: &str) -> u64 {
        let mut rounds = self.shared.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        let next = rounds.entry(channel.to_owned()).or_default();
        *next += 1;
        *next - 1
    }

    fn member(&self) -> Member {
        self.shared.joined.member
    }

    /// A request that must be answered soon after its own wait.
    fn timed<T>(&self, message: T, wait: Duration) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.set_timeout(wait + ANSWER_MAX);
        request
    }

    /// Repeats a call that did not reach host 0, until `wait` has passed.
    async fn repeat<T>(
        &self,
        wait: Option<Duration>,
        mut call: impl AsyncFnMut() -> std::result::Result<tonic::Response<T>, Status>,
    ) -> Result<T> {
        let start = Instant::now();
        loop {
            match call().await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) if is_refusal(&status) => {
                    return Err(RendezvousError::Refused(status.message().to_owned()));
                }
                // The watch ends the process where host 0 is lost.
                Err(status) if wait.is_some_and(|wait| start.elapsed() >= wait) => {
                    return Err(RendezvousError::Refused(status.to_string()));
                }
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.shared.runtime.handle().block_on(future)
    }
}

/// Whether the server answered that a call is wrong.
fn is_refusal(status: &Status) -> bool {
    matches!(status.code(), Code::FailedPrecondition | Code::InvalidArgument | Code::OutOfRange)
}
