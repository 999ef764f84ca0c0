//! Connections of strangers and of authenticated clients.
//!
//! Everyone on this host can connect, so a connection is a stranger's until a request with a session
//! succeeds on it. Strangers displace each other, the oldest first, and nobody waits for them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// All connections of a listener.
#[derive(Clone)]
pub(super) struct Seats {
    strangers: Arc<Mutex<Strangers>>,
    strangers_max: usize,
    known: Arc<Semaphore>,
}

/// The strangers' connections, the oldest first.
#[derive(Default)]
struct Strangers {
    next: u64,
    seated: VecDeque<(u64, CancellationToken)>,
}

/// The place of one connection.
pub(super) struct Seat {
    seats: Seats,
    number: u64,
    /// Cancelled when another stranger takes the place.
    pub displaced: CancellationToken,
    known: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Seats {
    pub(super) fn new(strangers_max: usize, known_max: usize) -> Seats {
        let known = Arc::new(Semaphore::new(known_max));
        Seats { strangers: Arc::default(), strangers_max, known }
    }

    /// Seats a new connection, and displaces the oldest stranger if there are too many.
    pub(super) fn enter(&self) -> Seat {
        let displaced = CancellationToken::new();
        let mut strangers = self.strangers();
        let number = strangers.next;
        strangers.next += 1;
        strangers.seated.push_back((number, displaced.clone()));
        if strangers.seated.len() > self.strangers_max
            && let Some((_, oldest)) = strangers.seated.pop_front()
        {
            oldest.cancel();
        }
        Seat { seats: self.clone(), number, displaced, known: Mutex::default() }
    }

    fn strangers(&self) -> MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, number: u64) {
        self.strangers().seated.retain(|(other, _)| *other != number);
    }
}

impl Seat {
    /// Takes the connection out of the strangers', as long as there is room.
    pub(super) fn admit(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            *known = self.seats.known.clone().try_acquire_owned().ok();
        }
        if known.is_some() {
            self.seats.forget(self.number);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.forget(self.number);
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
        assert!(!client.displaced.is_cancelled() && other.displaced.is_cancelled());
        // There is room for one known client.
        strangers[0].admit();
        let [first, _second] = [seats.enter(), seats.enter()];
        assert!(strangers.iter().all(|seat| seat.displaced.is_cancelled()));
        assert!(!first.displaced.is_cancelled());
        drop((client, strangers, other));
        first.admit();
        let _more = [seats.enter(), seats.enter(), seats.enter()];
        assert!(!first.displaced.is_cancelled());
    }
}
