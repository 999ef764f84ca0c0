//! Connections of clients that are not known, or not served. The oldest ones make room for new ones, so that nobody
//! waits for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The longest wait for displaced connections to close, so that one which does not keeps nobody out.
const CLOSING_MAX: Duration = Duration::from_millis(100);

/// All strangers of a listener.
#[derive(Clone, Debug)]
pub(super) struct Strangers {
    max: usize,
    seated: Arc<Mutex<Seated>>,
    closed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Seated {
    next: u64,
    /// By the order of arrival.
    connections: BTreeMap<u64, CancellationToken>,
    /// Displaced ones that have not closed yet.
    closing: usize,
}

/// A connection that is a stranger's until it leaves, or is dropped.
#[derive(Debug)]
pub(super) struct Stranger {
    strangers: Strangers,
    number: u64,
    /// Cancelled when another stranger takes the place.
    pub(super) displaced: CancellationToken,
}

impl Strangers {
    pub(super) fn new(max: usize) -> Strangers {
        Strangers { max, seated: Arc::default(), closed: Arc::default() }
    }

    /// Waits until displaced connections have closed: a burst of new ones would open files faster than these close.
    pub(super) async fn settled(&self) {
        let settled = async {
            loop {
                let closed = self.closed.notified();
                if self.seated().closing == 0 {
                    return;
                }
                closed.await;
            }
        };
        let _ = tokio::time::timeout(CLOSING_MAX, settled).await;
    }

    /// Enters a new connection, and displaces the oldest one if there are too many.
    pub(super) fn enter(&self) -> Stranger {
        let displaced = CancellationToken::new();
        let mut seated = self.seated();
        let number = seated.next;
        seated.next += 1;
        seated.connections.insert(number, displaced.clone());
        if seated.connections.len() > self.max
            && let Some((_, oldest)) = seated.connections.pop_first()
        {
            oldest.cancel();
            seated.closing += 1;
        }
        Stranger { strangers: self.clone(), number, displaced }
    }

    fn seated(&self) -> MutexGuard<'_, Seated> {
        self.seated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stranger {
    /// Makes the connection one that others do not displace.
    pub(super) fn leave(&self) {
        self.strangers.seated().connections.remove(&self.number);
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.leave();
        if self.displaced.is_cancelled() {
            self.strangers.seated().closing -= 1;
            self.strangers.closed.notify_waiters();
        }
    }
}
