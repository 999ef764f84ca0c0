//! Delivers notifications of state changes. They wait in the store, so that no job waits for a
//! receiver, and one that fails is tried again after ever longer pauses, also by a later daemon.
//!
//! A notification may arrive twice, if the daemon ends while it is being delivered.

mod command;
mod webhook;

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::StatusCode;

use super::daemon::Daemon;
use crate::clock;
use crate::jobs::store::{Delivery, StoreError};
use crate::notification::Way;

/// Notifications that are delivered at one time.
const AT_ONCE: usize = 32;
/// The pause after the first failure; each further one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// The age at which a notification is given up.
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Longest wait, in case the clock was set.
const IDLE: Duration = Duration::from_secs(60);
const RETRY_STORE: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
enum NotifyError {
    #[error("{0:?} is no address")]
    Address(String),
    #[error("connect: {0}")]
    Connect(io::Error),
    #[error("trust certificates: {0}")]
    Tls(#[from] crate::tls::TlsError),
    #[error("send the request: {0}")]
    Request(#[from] hyper::Error),
    #[error("build the request: {0}")]
    Build(#[from] hyper::http::Error),
    #[error("it answered {0}")]
    Status(StatusCode),
    #[error("read the secret {path}: {source}", path = .path.display())]
    Secret { path: PathBuf, source: io::Error },
    #[error("start {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("the command ended with {0}")]
    Failed(ExitStatus),
    #[error("it took longer than {} s", .0.as_secs())]
    Timeout(Duration),
}

/// Delivers what is due until the daemon closes.
pub(crate) async fn run(daemon: Arc<Daemon>) {
    let under_way = Arc::<UnderWay>::default();
    let mut next = Duration::ZERO;
    loop {
        tokio::select! {
            () = daemon.closing.cancelled() => return,
            () = daemon.store.notified() => {}
            () = under_way.ended.notified() => {}
            () = tokio::time::sleep(next) => {}
        }
        next = deliver_due(&daemon, &under_way).await.unwrap_or_else(|error| {
            tracing::error!(%error, "read notifications; will try again");
            RETRY_STORE
        });
    }
}

/// The notifications that are being delivered.
#[derive(Default)]
struct UnderWay {
    ids: Mutex<HashSet<i64>>,
    ended: tokio::sync::Notify,
}

impl UnderWay {
    fn ids(&self) -> MutexGuard<'_, HashSet<i64>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a delivery, unless it is under way or there are too many.
    fn begin(&self, id: i64) -> bool {
        let mut ids = self.ids();
        ids.len() < AT_ONCE && ids.insert(id)
    }
}

/// Starts to deliver what is due. Returns when to look again.
async fn deliver_due(
    daemon: &Arc<Daemon>,
    under_way: &Arc<UnderWay>,
) -> Result<Duration, StoreError> {
    let now = clock::now();
    let (due, next) = daemon.store.run(move |store| store.due(now, 2 * AT_ONCE)).await?;
    for delivery in due.into_iter().filter(|delivery| under_way.begin(delivery.id)) {
        let (daemon, under_way) = (daemon.clone(), under_way.clone());
        let closing = daemon.closing.clone();
        tokio::spawn(closing.run_until_cancelled_owned(async move {
            let id = delivery.id;
            if let Err(error) = deliver(&daemon, delivery).await {
                tracing::error!(%error, "note a notification");
            }
            under_way.ids().remove(&id);
            under_way.ended.notify_one();
        }));
    }
    let wait = next.map(|time| Duration::from_micros(time.saturating_sub(now).max(0) as u64));
    Ok(wait.unwrap_or(IDLE).min(IDLE))
}

async fn deliver(daemon: &Daemon, delivery: Delivery) -> Result<(), StoreError> {
    let sent = match &delivery.way {
        Way::Webhook { url, secret_file } => {
            webhook::send(&delivery, url, secret_file.clone()).await
        }
        Way::Command { words } => command::run(&delivery, words).await,
    };
    let Delivery { id, attempts, create_time, job, .. } = delivery;
    let age = Duration::from_micros(clock::now().saturating_sub(create_time).max(0) as u64);
    match sent {
        Ok(()) => {}
        Err(error) if age < AGE_MAX => {
            let pause = pause(attempts);
            tracing::warn!(job, %error, "notify; will try again in {} s", pause.as_secs());
            let not_before = clock::now().saturating_add(pause.as_micros() as i64);
            return daemon.store.run(move |store| store.undelivered(id, not_before)).await;
        }
        Err(error) => tracing::error!(job, %error, "notify; given up after a day"),
    }
    daemon.store.run(move |store| store.delivered(id)).await
}

fn pause(attempts: u32) -> Duration {
    PAUSE_FIRST.saturating_mul(1 << attempts.min(16)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_ten_minutes() {
        let seconds = [0, 1, 2, 9, 10, 4000].map(|attempts| pause(attempts).as_secs());
        assert_eq!(seconds, [1, 2, 4, 512, 600, 600]);
    }
}
