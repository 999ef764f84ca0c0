//! Limits on connections.
//!
//! A connection of a user beyond the limits is accepted, but its calls are refused with an error. It makes room for a
//! new one once there are too many such connections, as does one whose user is not known yet: nobody waits for those
//! that are not served.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::interfaces::server::quota::{Permit, Quota};
use crate::interfaces::strangers::{Stranger, Strangers};
use crate::settings::Limits;

/// The most connections whose calls are served.
const SERVED_MAX: usize = 4096;
/// The most other connections.
const UNSERVED_MAX: usize = 12_288;
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The limits that all connections share.
#[derive(Clone)]
pub(super) struct Seats {
    served: Arc<Semaphore>,
    of_users: Quota,
    unserved: Strangers,
    timeout: Duration,
}

/// The permits of one connection, or its wait for them.
#[derive(Debug)]
pub(super) struct Seat {
    served: Arc<Semaphore>,
    of_users: Quota,
    /// The user that the connection counts for; that of its first call if there is none.
    user: Option<String>,
    /// The connection as a stranger's, until there are permits.
    unserved: Stranger,
    taken: Mutex<Option<(OwnedSemaphorePermit, Permit)>>,
}

/// A connection whose user is not yet known.
pub(super) struct Entered {
    seats: Seats,
    unserved: Stranger,
}

impl Seats {
    /// Leaves a fourth of the files that may be open to other purposes.
    pub(super) fn new(limits: Limits) -> Seats {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        Seats {
            served: Arc::new(Semaphore::new(SERVED_MAX.min(files / 4))),
            of_users: Quota::new(limits.connections_per_user),
            unserved: Strangers::new(UNSERVED_MAX.min(files / 2)),
            timeout: limits.request_timeout.min(HANDSHAKE_TIMEOUT),
        }
    }

    /// Waits until connections that made room have closed.
    pub(super) async fn settled(&self) {
        self.unserved.settled().await;
    }

    pub(super) fn enter(&self) -> Entered {
        Entered { seats: self.clone(), unserved: self.unserved.enter() }
    }
}

impl Entered {
    /// How long a client may take to send the preface.
    pub(super) fn timeout(&self) -> Duration {
        self.seats.timeout
    }

    /// Cancelled when a new connection takes the place of this one.
    pub(super) fn displaced(&self) -> CancellationToken {
        self.unserved.displaced.clone()
    }

    /// Creates the seat of a connection of `user`, or of one whose calls will name their users. If no permits are
    /// left, later calls try again.
    pub(super) fn seat(self, user: Option<String>) -> Arc<Seat> {
        let Seats { served, of_users, .. } = self.seats;
        let seat =
            Seat { served, of_users, user, unserved: self.unserved, taken: Mutex::default() };
        if let Some(user) = &seat.user {
            let _ = seat.take(user);
        }
        Arc::new(seat)
    }
}

impl Seat {
    /// Takes the permits for a call of `caller`, unless the seat has them. An error names the exceeded limit.
    pub(super) fn take(&self, caller: &str) -> Result<(), &'static str> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.is_none() {
            let user = self.user.as_deref().unwrap_or(caller);
            let of_user = self.of_users.take(user).ok_or("connections of one user")?;
            let of_all = self.served.clone().try_acquire_owned().map_err(|_| "connections")?;
            *taken = Some((of_all, of_user));
            self.unserved.leave();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(served: usize, unserved: usize, of_user: usize) -> Seats {
        Seats {
            served: Arc::new(Semaphore::new(served)),
            of_users: Quota::new(of_user),
            unserved: Strangers::new(unserved),
            timeout: HANDSHAKE_TIMEOUT,
        }
    }

    #[test]
    fn connections_that_are_not_served_make_room_for_new_ones() {
        let seats = seats(9, 2, 1);
        let connect = |user: Option<&str>| {
            let entered = seats.enter();
            (entered.displaced(), entered.seat(user.map(str::to_owned)))
        };
        let is_open = |(displaced, _): &(CancellationToken, _)| !displaced.is_cancelled();
        let served = connect(Some("ann"));
        let beyond = [(); 3].map(|()| connect(Some("ann")));
        assert_eq!(beyond.each_ref().map(is_open), [false, true, true]);
        assert_eq!(beyond[2].1.take("ann"), Err("connections of one user"));
        // A connection of the network belongs to no user before a call with a token.
        let strangers = [(); 2].map(|()| connect(None));
        assert_eq!(beyond.each_ref().map(is_open), [false; 3]);
        assert_eq!(strangers[1].1.take("bob"), Ok(()));
        let later = [(); 9].map(|()| connect(None));
        assert!(is_open(&served) && is_open(&strangers[1]) && !is_open(&strangers[0]));
        assert_eq!(later.iter().filter(|it| is_open(it)).count(), 2);
        drop(served);
        assert_eq!(later[8].1.take("ann"), Ok(()));
    }
}
