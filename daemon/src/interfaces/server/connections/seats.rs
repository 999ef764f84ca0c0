//! Limits on connections.
//!
//! Beyond [`SERVED_MAX`] a connection is accepted, but its calls are refused with an error. Beyond
//! [`OPEN_MAX`] clients wait in the kernel's queue.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::interfaces::server::quota::{Permit, Quota};
use crate::settings::Limits;

/// Most connections whose calls are served.
const SERVED_MAX: usize = 4096;
/// Most open connections, including refused ones.
const OPEN_MAX: usize = 16_384;
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The limits that all connections share.
#[derive(Clone)]
pub(super) struct Seats {
    served: Arc<Semaphore>,
    open: Arc<Semaphore>,
    of_users: Quota,
    timeout: Duration,
}

/// The permits of one connection, or its wait for them.
#[derive(Debug)]
pub(super) struct Seat {
    served: Arc<Semaphore>,
    of_users: Quota,
    user: String,
    taken: Mutex<Option<(OwnedSemaphorePermit, Permit)>>,
}

/// A connection whose user is not yet known.
pub(super) struct Entered {
    seats: Seats,
    open: Option<OwnedSemaphorePermit>,
}

impl Seats {
    pub(super) fn new(limits: Limits) -> Seats {
        Seats {
            served: Arc::new(Semaphore::new(SERVED_MAX)),
            open: Arc::new(Semaphore::new(OPEN_MAX)),
            of_users: Quota::new(limits.connections_per_user),
            timeout: limits.request_timeout.min(HANDSHAKE_TIMEOUT),
        }
    }

    pub(super) async fn enter(&self) -> Entered {
        Entered { seats: self.clone(), open: self.open.clone().acquire_owned().await.ok() }
    }
}

impl Entered {
    /// How long a client may take to send the preface.
    pub(super) fn timeout(&self) -> Duration {
        self.seats.timeout
    }

    /// Creates the seat of a connection of `user`, and returns it with the permit of the open
    /// connection. If no permits are left, later calls try again.
    pub(super) fn seat(self, user: String) -> (Arc<Seat>, Option<OwnedSemaphorePermit>) {
        let Seats { served, of_users, .. } = self.seats;
        let seat = Seat { served, of_users, user, taken: Mutex::default() };
        let _ = seat.take();
        (Arc::new(seat), self.open)
    }
}

impl Seat {
    /// Takes the permits unless the seat has them. An error names the exceeded limit.
    pub(super) fn take(&self) -> Result<(), &'static str> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.is_none() {
            let of_user = self.of_users.take(&self.user).ok_or("connections of one user")?;
            let of_all = self.served.clone().try_acquire_owned().map_err(|_| "connections")?;
            *taken = Some((of_all, of_user));
        }
        Ok(())
    }
}
