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
    /// The connections in the order of their arrival.
    connections: BTreeMap<u64, CancellationToken>,
    /// The number of displaced connections that have not closed yet.
    closing: usize,
}

/// A connection that is a stranger's until it leaves, or is dropped.
#[derive(Debug)]
pub(super) struct Stranger {
    strangers: Strangers,
    number: u64,
    /// A token that is cancelled when another stranger takes the place.
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

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::{Pin, pin};
    use std::task::Poll;

    use super::*;

    async fn is_ready(future: &mut Pin<&mut impl Future>) -> bool {
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
    }

    #[tokio::test]
    async fn nobody_enters_until_displaced_connections_have_closed() {
        let strangers = Strangers::new(1);
        let mut none = pin!(strangers.settled());
        assert!(is_ready(&mut none).await, "nobody is displaced");
        let [first, second, last] = [(); 3].map(|()| strangers.enter());
        let is_displaced = |stranger: &Stranger| stranger.displaced.is_cancelled();
        assert_eq!([&first, &second, &last].map(is_displaced), [true, true, false]);
        let mut settled = pin!(strangers.settled());
        assert!(!is_ready(&mut settled).await);
        // One that is admitted while it is displaced still has to close.
        first.leave();
        drop(first);
        assert!(!is_ready(&mut settled).await);
        drop(second);
        assert!(is_ready(&mut settled).await);
        drop(last);
        let mut none = pin!(strangers.settled());
        assert!(is_ready(&mut none).await, "nobody was displaced");
    }

    /// The wait ends by its limit.
    #[tokio::test]
    async fn a_connection_that_does_not_close_keeps_nobody_out() {
        let strangers = Strangers::new(1);
        let [first, _second] = [(); 2].map(|()| strangers.enter());
        strangers.settled().await;
        assert!(first.displaced.is_cancelled());
    }
}
