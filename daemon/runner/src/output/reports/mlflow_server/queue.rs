//! The metrics that wait for the server. Their number is bounded: the oldest are left out first.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

/// The most metrics in a request of MLflow.
pub(super) const METRICS_MAX: usize = 1000;
/// About a day of a job that logs eight metrics every ten seconds.
const WAITING_MAX: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Metric {
    pub key: String,
    pub value: f64,
    /// The time in milliseconds since 1970.
    pub timestamp: u64,
    pub step: u64,
}

/// The next request to send.
#[derive(Debug, PartialEq)]
pub(super) enum Work {
    Metrics(Vec<Metric>),
    /// The status with which the run has ended.
    End(&'static str),
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Metric>,
    /// The number of metrics that are being sent.
    sending: usize,
    /// The number of metrics that were left out.
    left_out: usize,
    end: Option<&'static str>,
    /// Whether the run does not wait any longer.
    is_abandoned: bool,
    /// Whether nothing is sent any more.
    is_closed: bool,
}

impl Queue {
    /// Adds metrics, in place of the oldest ones if too many wait.
    pub(super) fn add(&self, metrics: impl Iterator<Item = Metric>) {
        let mut state = self.state();
        state.waiting.extend(metrics);
        let excess = match state.is_closed {
            true => state.waiting.len(),
            false => state.waiting.len().saturating_sub(WAITING_MAX),
        };
        state.waiting.drain(..excess);
        state.left_out += excess;
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for metrics, or for the end of the run.
    pub(super) fn next(&self) -> Work {
        let is_idle = |state: &mut State| state.waiting.is_empty() && state.end.is_none();
        let state = self.changed.wait_while(self.state(), is_idle);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        match state.end {
            Some(status) if state.waiting.is_empty() => Work::End(status),
            _ => {
                let count = state.waiting.len().min(METRICS_MAX);
                state.sending = count;
                Work::Metrics(state.waiting.drain(..count).collect())
            }
        }
    }

    /// Notes that the metrics of [`Queue::next`] were sent.
    pub(super) fn note_sent(&self) {
        self.state().sending = 0;
    }

    /// Waits, and returns whether the run still waits for its metrics to be sent.
    pub(super) fn pause(&self, pause: Duration) -> bool {
        let waits = |state: &mut State| !state.is_abandoned;
        let waited = self.changed.wait_timeout_while(self.state(), pause, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_abandoned
    }

    /// Ends the run. Waits until everything is sent, at most for `timeout`; returns the number of metrics
    /// that were not.
    pub(super) fn end(&self, status: &'static str, timeout: Duration) -> usize {
        let mut state = self.state();
        state.end = Some(status);
        self.changed.notify_all();
        let sends = |state: &mut State| !state.is_closed;
        let waited = self.changed.wait_timeout_while(state, timeout, sends);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.is_abandoned = true;
        self.changed.notify_all();
        state.left_out + state.sending + state.waiting.len()
    }

    /// Notes that nothing is sent any more.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(steps: std::ops::Range<u64>) -> impl Iterator<Item = Metric> {
        steps.map(|step| Metric { key: "loss".to_owned(), value: 0.5, timestamp: 7, step })
    }

    #[test]
    fn metrics_are_sent_in_batches_and_before_the_end() {
        let queue = Queue::default();
        queue.add(metrics(0..1500));
        assert_eq!(queue.next(), Work::Metrics(metrics(0..1000).collect()));
        assert_eq!(queue.end("FAILED", Duration::ZERO), 1500);
        queue.note_sent();
        assert_eq!(queue.next(), Work::Metrics(metrics(1000..1500).collect()));
        queue.note_sent();
        assert_eq!(queue.next(), Work::End("FAILED"));
        assert!(!queue.pause(Duration::MAX), "the run has left");
        queue.close();
        assert_eq!(queue.end("FAILED", Duration::MAX), 0);
    }

    #[test]
    fn the_oldest_metrics_are_left_out() {
        let queue = Queue::default();
        queue.add(metrics(0..WAITING_MAX as u64 + 3));
        let Work::Metrics(batch) = queue.next() else { panic!("no metrics") };
        assert_eq!(batch[0].step, 3);
        queue.note_sent();
        queue.close();
        assert_eq!(queue.end("FINISHED", Duration::ZERO), 3 + WAITING_MAX - METRICS_MAX);
        queue.add(metrics(0..5));
        assert_eq!(queue.end("FINISHED", Duration::ZERO), 3 + 5 + WAITING_MAX - METRICS_MAX);
    }
}
