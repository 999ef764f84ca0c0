//! How many connections may be open, and how many of them are served.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::interfaces::server::quota::{Place, Quota};
use crate::settings::Limits;

/// Connections whose calls are served.
const SERVED_MAX: usize = 4096;
/// Connections that are open, refused ones with them.
const OPEN_MAX: usize = 16_384;
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The places that connections take.
#[derive(Clone)]
pub(super) struct Room {
    served: Arc<Semaphore>,
    open: Arc<Semaphore>,
    of_users: Quota,
    patience: Duration,
}

/// The place of one connection among those that are served, or its want of one.
#[derive(Debug)]
pub(super) struct Seat {
    served: Arc<Semaphore>,
    of_users: Quota,
    who: String,
    taken: Mutex<Option<(OwnedSemaphorePermit, Place)>>,
}

/// A connection that is open, before it is known whose it is.
pub(super) struct Entered {
    room: Room,
    open: Option<OwnedSemaphorePermit>,
}

impl Room {
    pub(super) fn new(limits: Limits) -> Room {
        Room {
            served: Arc::new(Semaphore::new(SERVED_MAX)),
            open: Arc::new(Semaphore::new(OPEN_MAX)),
            of_users: Quota::new(limits.connections_per_user),
            patience: limits.request_timeout.min(HANDSHAKE_TIMEOUT),
        }
    }

    pub(super) async fn enter(&self) -> Entered {
        Entered { room: self.clone(), open: self.open.clone().acquire_owned().await.ok() }
    }
}

impl Entered {
    /// How long a client may take to begin.
    pub(super) fn patience(&self) -> Duration {
        self.room.patience
    }

    /// A seat for a connection of `who`, and what it holds for as long as it is open. One that
    /// gets no place now may get one when it calls.
    pub(super) fn seat(self, who: String) -> (Arc<Seat>, Option<OwnedSemaphorePermit>) {
        let Room { served, of_users, .. } = self.room;
        let seat = Seat { served, of_users, who, taken: Mutex::default() };
        let _ = seat.take();
        (Arc::new(seat), self.open)
    }
}

impl Seat {
    /// Takes a place unless it has one; what there is too much of, if there is none to take.
    pub(super) fn take(&self) -> Result<(), &'static str> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.is_none() {
            let of_user = self.of_users.take(&self.who).ok_or("connections of one user")?;
            let of_all = self.served.clone().try_acquire_owned().map_err(|_| "connections")?;
            *taken = Some((of_all, of_user));
        }
        Ok(())
    }
}
