//! Heartbeats of a host, and its own watch over host 0.

use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::connect::Joined;
use crate::watch::{WatchSettings, lost};
use crate::wire::{Answer, Heartbeat, Verdict};

/// The time between two heartbeats.
const PERIOD: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_millis(200);
/// The part of a wait by which a pause of this process can shorten it.
const SLICE: Duration = Duration::from_secs(1);

/// The state of a host, as its runner knows it.
#[derive(Clone, Debug, Default)]
pub struct HostState {
    pub phase: String,
    /// Whether the phase only takes long where this host itself is slow.
    pub should_progress: bool,
    /// Steps that it has launched.
    pub step: u64,
    /// Median time of its steps in seconds; 0 where unknown.
    pub step_seconds: f64,
    pub cores: Vec<u32>,
    /// Warnings since the last call.
    pub warnings: Vec<String>,
    /// Status for host 0, which the rendezvous does not look into.
    pub status: Vec<u8>,
}

/// The newest sign of host 0.
struct First {
    heard: Instant,
    newest: Answer,
}

/// Reports until there is a verdict: that of host 0, or that host 0 is lost.
pub(super) async fn follow(
    joined: Joined,
    settings: WatchSettings,
    state: impl Fn() -> HostState,
) -> Verdict {
    let mut first = First { heard: Instant::now(), newest: Answer::default() };
    let mut absent_since = None;
    loop {
        if let Some(verdict) =
            report(&joined, settings, &state, &mut first, &mut absent_since).await
        {
            return verdict;
        }
        let since = *absent_since.get_or_insert_with(Instant::now);
        if since.elapsed() > settings.absence_max {
            return first.lost("cannot be reached");
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Reports over one connection. Returns `None` when it breaks.
async fn report(
    joined: &Joined,
    settings: WatchSettings,
    state: &impl Fn() -> HostState,
    first: &mut First,
    absent_since: &mut Option<Instant>,
) -> Option<Verdict> {
    let (sender, receiver) = mpsc::channel(1);
    sender.send(heartbeat(joined, state())).await.ok()?;
    let mut calls = joined.calls();
    let opening = calls.follow(ReceiverStream::new(receiver));
    let opened = within(settings.silence_max, opening).await;
    let Some(opened) = opened else { return Some(first.silent()) };
    let mut answers: Streaming<Answer> = match opened {
        Ok(response) => response.into_inner(),
        Err(_) => return None,
    };
    loop {
        match within(settings.silence_max, answers.message()).await {
            None => return Some(first.silent()),
            Some(Ok(Some(answer))) => {
                *absent_since = None;
                if let Some(verdict) = first.hear(answer) {
                    return Some(verdict);
                }
            }
            Some(_) => return None,
        }
        tokio::time::sleep(PERIOD).await;
        sender.send(heartbeat(joined, state())).await.ok()?;
    }
}

/// Returns the output of `future`; `None` if it takes longer than `limit`, without the time in which this process does
/// not run.
async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = limit;
    while !left.is_zero() {
        let slice = left.min(SLICE);
        if let Ok(output) = tokio::time::timeout(slice, &mut future).await {
            return Some(output);
        }
        left -= slice;
    }
    None
}

fn heartbeat(joined: &Joined, state: HostState) -> Heartbeat {
    let HostState { phase, should_progress, step, step_seconds, cores, warnings, status } = state;
    let member = Some(joined.member);
    Heartbeat { member, phase, should_progress, step, step_seconds, cores, warnings, status }
}

impl First {
    fn hear(&mut self, mut answer: Answer) -> Option<Verdict> {
        let verdict = answer.verdict.take();
        (self.heard, self.newest) = (Instant::now(), answer);
        verdict
    }

    fn silent(&self) -> Verdict {
        self.lost(&format!("has been silent for {} s", self.heard.elapsed().as_secs()))
    }

    fn lost(&self, problem: &str) -> Verdict {
        let Answer { phase, step, host, cores, .. } = self.newest.clone();
        let newest = Heartbeat { phase, step, cores, ..Heartbeat::default() };
        lost(0, &host, &newest, problem)
    }
}
