//! How late the daemon is: how long what clients said has waited to be read.
//!
//! The kernel hands over what is ready to read in the order in which it came, so a byte that the
//! daemon sends to itself waits as long as what came at the same moment. While such a marker is on
//! its way, whatever is read came before it, and has waited at least as long as the marker is old.
//! A host on which everything is slow may hold a marker up too: only a crowd of calls that came
//! before it makes the daemon late.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::UnixStream;

/// Markers follow each other at this distance, which is how exact they are.
const PERIOD: Duration = Duration::from_millis(5);
/// As many calls at once are no crowd.
pub(super) const CROWD: usize = 64;
/// More of them on their way would tell nothing new.
const MARKERS_MAX: usize = 64;

/// Clones share their markers.
#[derive(Clone, Debug, Default)]
pub(super) struct Lateness {
    markers: Arc<Mutex<Markers>>,
}

#[derive(Debug, Default)]
struct Markers {
    /// Those that have not come back: when they were sent, and after how many calls.
    sent: VecDeque<(Instant, usize)>,
    calls: usize,
}

impl Lateness {
    /// How long at least the call has waited which is being handled now.
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
                // Without a descriptor to spare the daemon has other worries.
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
        let first = self.sent.front().filter(|first| self.calls.wrapping_sub(first.1) > CROWD);
        first.map_or(Duration::ZERO, |first| now - first.0)
    }

    fn is_due(&self, now: Instant) -> bool {
        let due = self.sent.back().is_none_or(|last| now - last.0 >= PERIOD);
        due && self.sent.len() < MARKERS_MAX
    }
}

/// A socket with something to read, which the kernel will say after all that it has to say now.
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
    async fn who_comes_behind_a_crowd_is_late() {
        let lateness = Lateness::default();
        for _ in 0..CROWD {
            assert_eq!(lateness.of_call(), Duration::ZERO);
        }
        // Nobody reads meanwhile.
        std::thread::sleep(4 * PERIOD);
        assert_eq!(lateness.of_call(), Duration::ZERO, "so many are no crowd yet");
        assert!(lateness.of_call() >= 4 * PERIOD);
        while !lateness.markers().sent.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(lateness.of_call(), Duration::ZERO);
    }
}
