//! Measures how long requests have waited in the kernel before the daemon reads them.
//!
//! The kernel reports readable sockets in order of arrival, so a byte that the daemon sends to itself
//! waits as long as a request that arrived at the same time. While such a marker is unread, every
//! request that is read arrived before it, and has waited at least as long as the marker is old. On
//! a slow host markers wait, too, so the daemon counts as late only if many calls arrived first.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::UnixStream;

/// Interval between markers, which bounds the precision.
const PERIOD: Duration = Duration::from_millis(5);
/// Calls at once up to which the daemon does not count as late.
pub(super) const BURST_MAX: usize = 64;
/// The most unread markers.
const MARKERS_MAX: usize = 64;

/// Clones share their markers.
#[derive(Clone, Debug, Default)]
pub(super) struct Lateness {
    markers: Arc<Mutex<Markers>>,
}

#[derive(Debug, Default)]
struct Markers {
    /// Unread markers: the time of sending, and the number of calls before.
    sent: VecDeque<(Instant, usize)>,
    calls: usize,
}

impl Lateness {
    /// A lower bound of how long the call that is being handled has waited.
    pub(super) fn of_call(&self) -> Duration {
        let now = Instant::now();
        let mut markers = self.markers();
        markers.calls = markers.calls.wrapping_add(1);
        let (late, due) = (markers.lateness(now), markers.is_due(now));
        if due {
            match marker() {
                Ok(marker) => {
                    let calls = markers.calls;
                    markers.sent.push_back((now, calls));
                    tokio::spawn(self.clone().wait_for(marker));
                }
                // Fails when the daemon is out of file descriptors, and is best-effort.
                Err(error) => tracing::debug!(%error, "measure how late the daemon is"),
            }
        }
        late
    }

    async fn wait_for(self, marker: UnixStream) {
        let _ = marker.readable().await;
        self.markers().sent.pop_front();
    }

    fn markers(&self) -> MutexGuard<'_, Markers> {
        self.markers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Markers {
    fn lateness(&self, now: Instant) -> Duration {
        let first = self.sent.front().filter(|first| self.calls.wrapping_sub(first.1) > BURST_MAX);
        first.map_or(Duration::ZERO, |first| now - first.0)
    }

    fn is_due(&self, now: Instant) -> bool {
        let due = self.sent.back().is_none_or(|last| now - last.0 >= PERIOD);
        due && self.sent.len() < MARKERS_MAX
    }
}

/// Creates a readable socket, which the kernel reports after all that are readable now.
fn marker() -> io::Result<UnixStream> {
    let (mut sender, receiver) = std::os::unix::net::UnixStream::pair()?;
    sender.write_all(&[0])?;
    receiver.set_nonblocking(true)?;
    UnixStream::from_std(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_behind_a_burst_is_late() {
        let lateness = Lateness::default();
        for _ in 0..BURST_MAX {
            assert_eq!(lateness.of_call(), Duration::ZERO);
        }
        // Blocks the reactor.
        std::thread::sleep(4 * PERIOD);
        assert_eq!(lateness.of_call(), Duration::ZERO, "still within the burst");
        assert!(lateness.of_call() >= 4 * PERIOD);
        while !lateness.markers().sent.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(lateness.of_call(), Duration::ZERO);
    }
}
