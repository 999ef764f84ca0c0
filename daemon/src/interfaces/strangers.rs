//! Connections of clients that are not known, or not served. The oldest ones make room for new ones, so that nobody
//! waits for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// All strangers of a listener.
#[derive(Clone, Debug)]
pub(super) struct Strangers {
    max: usize,
    seated: Arc<Mutex<Seated>>,
}

#[derive(Debug, Default)]
struct Seated {
    next: u64,
    /// By the order of arrival.
    connections: BTreeMap<u64, CancellationToken>,
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
        Strangers { max, seated: Arc::default() }
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
    }
}
