//! Downloads of a run: told as events, and given up at once when the run is to end. A server that
//! says nothing must not keep a run from leaving.

use std::collections::HashMap;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use traind_cache::DownloadObserver;
use traind_loader::Error as LoaderError;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Fetched, Phase};

use super::Context;
use crate::error::{RunError, RunResult};

/// How often a download that is not at its end is told of.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// How often to look whether the run is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Makes events of what is fetched.
#[derive(Debug)]
struct Teller {
    context: Context,
    /// By their names: when they began, and when they were told of for the last time.
    under_way: Mutex<HashMap<String, (Instant, Instant)>>,
}

/// The observer of a run's downloads.
pub(crate) fn observer(context: &Context) -> Arc<dyn DownloadObserver> {
    Arc::new(Teller { context: context.clone(), under_way: Mutex::default() })
}

impl DownloadObserver for Teller {
    fn progressed(&self, name: &str, bytes: u64, bytes_total: u64) {
        if self.is_cancelled() {
            return;
        }
        let now = Instant::now();
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        self.context.activity.enter(Phase::Fetch);
        let (began, told) = under_way.entry(name.to_owned()).or_insert((now, now));
        let whole = bytes >= bytes_total;
        if !whole && now - *told < TELL_EVERY {
            return;
        }
        *told = now;
        let seconds = (now - *began).as_secs_f64();
        if whole {
            under_way.remove(name);
            self.context.activity.enter(Phase::Idle);
        }
        let fetched = Fetched { name: name.to_owned(), bytes, bytes_total, seconds };
        // A log that takes no events is found out by whoever writes the next one.
        let _ = self.context.journal.record(Kind::Fetched(fetched));
    }

    fn is_cancelled(&self) -> bool {
        self.context.stop.reason().is_some()
    }
}

/// Does `work` on a thread of its own, which is left behind where the run is to end: what it has
/// fetched until then is there for the next run.
pub(crate) fn unless_stopped<T: Send + 'static>(
    context: &Context,
    work: impl FnOnce(&Context) -> T + Send + 'static,
) -> RunResult<T> {
    let (sender, receiver) = sync_channel(1);
    let own = context.clone();
    let thread = std::thread::Builder::new().name("fetch".to_owned());
    let work = move || {
        // Nobody waits for it any more where the run has ended.
        let _ = sender.send(work(&own));
    };
    thread.spawn(work).map_err(RunError::Thread)?;
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) if context.stop.reason().is_some() => {
                return Err(LoaderError::Abandoned.into());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(RunError::Panicked("the thread that fetches ended".to_owned()));
            }
        }
    }
}
