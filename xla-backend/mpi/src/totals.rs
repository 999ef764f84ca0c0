//! Counts of what was exchanged, for [`Statistics`].

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The exchange of data since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Reductions, each of one device.
    pub calls: u64,
    /// Bytes that this process contributed to them.
    pub bytes: u64,
    /// The time in which at least one reduction was under way, those of slower hosts included.
    pub busy: Duration,
    /// Reductions that are under way.
    pub pending: u64,
    /// Messages that this process sent.
    pub messages: u64,
    /// Their bytes.
    pub message_bytes: u64,
}

/// Kept by the engine's thread and by those that send messages.
#[derive(Default)]
pub(crate) struct Totals(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// `busy` without the reductions under way.
    ended: Statistics,
    /// The time since which at least one reduction is under way.
    busy_since: Option<Instant>,
}

impl Totals {
    pub(crate) fn statistics(&self) -> Statistics {
        self.change(|counts| counts.ended)
    }

    pub(crate) fn reduction_begun(&self, bytes: usize) {
        self.change(|Counts { ended, busy_since }| {
            busy_since.get_or_insert_with(Instant::now);
            ended.calls += 1;
            ended.bytes += bytes as u64;
            ended.pending += 1;
        });
    }

    pub(crate) fn reduction_ended(&self) {
        self.change(|Counts { ended, busy_since }| {
            ended.pending -= 1;
            if ended.pending == 0 {
                ended.busy += busy_since.take().map(|since| since.elapsed()).unwrap_or_default();
            }
        });
    }

    pub(crate) fn message_sent(&self, bytes: usize) {
        self.change(|counts| {
            counts.ended.messages += 1;
            counts.ended.message_bytes += bytes as u64;
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
