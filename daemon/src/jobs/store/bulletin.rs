//! Notifies the watchers of a job of new events.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// A channel for each watched job, which carries the last sequence.
#[derive(Default)]
pub(super) struct Bulletin {
    channels: Mutex<HashMap<i64, watch::Sender<u64>>>,
}

/// A subscription to the events of one job.
pub(crate) struct Subscription(watch::Receiver<u64>);

impl Subscription {
    /// Waits until events were stored since the last call.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The store is gone, so nothing will ever change.
            std::future::pending::<()>().await;
        }
    }
}

impl Bulletin {
    pub(super) fn subscribe(&self, job: i64) -> Subscription {
        let mut channels = self.lock();
        let channel = channels.entry(job).or_insert_with(|| watch::Sender::new(0));
        Subscription(channel.subscribe())
    }

    pub(super) fn publish(&self, job: i64, last_sequence: u64) {
        let mut channels = self.lock();
        let Some(channel) = channels.get(&job) else { return };
        // The last subscriber has left.
        if channel.send(last_sequence).is_err() {
            channels.remove(&job);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, watch::Sender<u64>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
