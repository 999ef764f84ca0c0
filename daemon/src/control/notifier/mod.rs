//! Delivers notifications of state changes. They wait in the store, so that no job waits for a
//! receiver, and one that fails is tried again after ever longer pauses, also by a later daemon.
//!
//! A notification may arrive twice, if the daemon ends while it is being delivered.

mod command;
mod webhook;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::StatusCode;

use super::daemon::Daemon;
use crate::clock;
use crate::jobs::store::{Delivery, PAUSE_MAX, Store, StoreError};
use crate::notification::Way;

/// Notifications that are delivered at one time.
const AT_ONCE: usize = 32;
/// Limit per user, since receivers that do not answer are waited for.
const AT_ONCE_OF_USER: usize = 8;
/// The pause after the first failure; each further one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The age at which a notification is given up.
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// The longest wait, in case the clock was set.
const IDLE: Duration = Duration::from_secs(60);
const RETRY_STORE: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
enum NotifyError {
    #[error("{0:?} is not an address")]
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
    /// The deliveries under way with their users; `None` is the operator.
    ids: Mutex<HashMap<i64, Option<String>>>,
    ended: tokio::sync::Notify,
}

impl UnderWay {
    fn ids(&self) -> MutexGuard<'_, HashMap<i64, Option<String>>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a delivery, unless it is under way or there are too many.
    fn begin(&self, id: i64, user: &Option<String>) -> bool {
        let mut ids = self.ids();
        let of_user = ids.values().filter(|other| *other == user).count();
        if ids.len() >= AT_ONCE || of_user >= AT_ONCE_OF_USER || ids.contains_key(&id) {
            return false;
        }
        ids.insert(id, user.clone());
        true
    }

    /// The users with as many deliveries as one may have; `None` if there are as many as all may have.
    fn busy(&self) -> Option<Vec<Option<String>>> {
        let ids = self.ids();
        let mut counts = HashMap::<&Option<String>, usize>::new();
        ids.values().for_each(|user| *counts.entry(user).or_default() += 1);
        let busy = counts.into_iter().filter(|(_, count)| *count >= AT_ONCE_OF_USER);
        let busy = busy.map(|(user, _)| user.clone()).collect();
        (ids.len() < AT_ONCE).then_some(busy)
    }
}

/// Starts to deliver what is due. Returns when to look again.
async fn deliver_due(
    daemon: &Arc<Daemon>,
    under_way: &Arc<UnderWay>,
) -> Result<Duration, StoreError> {
    let mut wait = None;
    // Again where users became busy, whose notifications may hide those of others.
    while let Some(busy) = under_way.busy() {
        let (now, known) = (clock::now(), busy.len());
        let due = move |store: &Store| store.due(now, 2 * AT_ONCE, &busy);
        let (due, next) = daemon.store.run(due).await?;
        wait = next.map(|time| Duration::from_micros(time.saturating_sub(now).max(0) as u64));
        for delivery in due {
            if under_way.begin(delivery.id, &delivery.user) {
                spawn(daemon, under_way, delivery);
            }
        }
        if under_way.busy().is_none_or(|busy| busy.len() <= known) {
            break;
        }
    }
    Ok(wait.unwrap_or(IDLE).min(IDLE))
}

fn spawn(daemon: &Arc<Daemon>, under_way: &Arc<UnderWay>, delivery: Delivery) {
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
    fn receivers_of_one_user_that_do_not_answer_leave_room_for_others() {
        let under_way = UnderWay::default();
        let user = |name: &str| Some(name.to_owned());
        let begun = (0..100).filter(|id| under_way.begin(*id, &user("ann"))).count();
        assert_eq!(begun, AT_ONCE_OF_USER);
        assert_eq!(under_way.busy(), Some(vec![user("ann")]));
        assert!(under_way.begin(100, &user("bob")) && under_way.begin(101, &None));
        assert!(!under_way.begin(101, &None), "it is under way");
        for id in 200..300 {
            under_way.begin(id, &user(&format!("user-{id}")));
        }
        assert_eq!(under_way.ids().len(), AT_ONCE);
        assert_eq!(under_way.busy(), None);
    }

    #[test]
    fn pauses_double_up_to_ten_minutes() {
        let seconds = [0, 1, 2, 9, 10, 4000].map(|attempts| pause(attempts).as_secs());
        assert_eq!(seconds, [1, 2, 4, 512, 600, 600]);
    }
}
