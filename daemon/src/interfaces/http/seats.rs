//! Connections of strangers and of authenticated clients.
//!
//! Everyone on this host can connect, so a connection is a stranger's until a request with a session
//! succeeds on it. Strangers displace each other, the oldest first, and nobody waits for them.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::interfaces::strangers::{Stranger, Strangers};

/// All connections of a listener.
#[derive(Clone)]
pub(super) struct Seats {
    strangers: Strangers,
    known: Arc<Semaphore>,
}

/// The place of one connection.
pub(super) struct Seat {
    stranger: Stranger,
    all_known: Arc<Semaphore>,
    known: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Seats {
    pub(super) fn new(strangers_max: usize, known_max: usize) -> Seats {
        let known = Arc::new(Semaphore::new(known_max));
        Seats { strangers: Strangers::new(strangers_max), known }
    }

    /// Waits until connections that made room have closed.
    pub(super) async fn settled(&self) {
        self.strangers.settled().await;
    }

    /// Seats a new connection, and displaces the oldest stranger if there are too many.
    pub(super) fn enter(&self) -> Seat {
        let (stranger, all_known) = (self.strangers.enter(), self.known.clone());
        Seat { stranger, all_known, known: Mutex::default() }
    }
}

impl Seat {
    /// Cancelled when another stranger takes the place.
    pub(super) fn displaced(&self) -> &CancellationToken {
        &self.stranger.displaced
    }

    /// Takes the connection out of the strangers', as long as there is room.
    pub(super) fn admit(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            *known = self.all_known.clone().try_acquire_owned().ok();
        }
        if known.is_some() {
            self.stranger.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_displace_each_other_and_no_known_client() {
        let seats = Seats::new(2, 1);
        let [client, other] = [seats.enter(), seats.enter()];
        client.admit();
        let strangers = [seats.enter(), seats.enter()];
        assert!(!client.displaced().is_cancelled() && other.displaced().is_cancelled());
        // There is room for one known client.
        strangers[0].admit();
        let [first, _second] = [seats.enter(), seats.enter()];
        assert!(strangers.iter().all(|seat| seat.displaced().is_cancelled()));
        assert!(!first.displaced().is_cancelled());
        drop((client, strangers, other));
        first.admit();
        let _more = [seats.enter(), seats.enter(), seats.enter()];
        assert!(!first.displaced().is_cancelled());
    }
}
