//! Downloads of a run: reported as events, and abandoned as soon as the run is asked to stop, so
//! that a server that does not respond cannot delay it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use traind_cache::{DownloadObserver, EntryLocks};
use traind_hub::{DataFile, DataSetRequest, Hub, ModelRequest, Notice};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Fetched, Phase};

use super::{Journal, Reporter, Stop};
use crate::error::{RunError, RunResult};

/// The time between two events of one download.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// Fetches files for a run.
#[derive(Clone, Debug)]
pub(crate) struct Downloads {
    hub: Hub,
    journal: Journal,
    stop: Stop,
}

impl Downloads {
    /// Fetches into `cache_dir` and locks what the run uses there.
    pub(crate) fn new(
        cache_dir: PathBuf,
        run_dir: PathBuf,
        locks: EntryLocks,
        reporter: Reporter,
        stop: Stop,
    ) -> Downloads {
        let journal = reporter.journal.clone();
        let events = DownloadEvents { reporter, stop: stop.clone(), under_way: Mutex::default() };
        let hub = Hub { cache_dir, run_dir, locks, observer: Arc::new(events) };
        Downloads { hub, journal, stop }
    }

    /// Reports the loader's own downloads.
    pub(crate) fn observer(&self) -> Arc<dyn DownloadObserver> {
        Arc::clone(&self.hub.observer)
    }

    /// The folder of the run.
    pub(crate) fn run_dir(&self) -> &Path {
        &self.hub.run_dir
    }

    pub(crate) fn locks(&self) -> &EntryLocks {
        &self.hub.locks
    }

    /// Returns the folder with a model of the hub, which `field` of the job file names.
    pub(crate) fn fetch_model(
        &self,
        field: &'static str,
        request: ModelRequest,
    ) -> RunResult<PathBuf> {
        self.fetch(field, move |hub, notify| hub.fetch_model(&request, notify))
    }

    /// Returns the files of a data set of the hub, which `field` of the job file names.
    pub(crate) fn fetch_data(
        &self,
        field: &'static str,
        request: DataSetRequest,
    ) -> RunResult<Vec<DataFile>> {
        self.fetch(field, move |hub, notify| hub.fetch_data(&request, notify))
    }

    fn fetch<T: Send + 'static>(
        &self,
        field: &'static str,
        fetch: impl FnOnce(&Hub, &dyn Fn(Notice<'_>)) -> traind_hub::Result<T> + Send + 'static,
    ) -> RunResult<T> {
        let (hub, journal) = (self.hub.clone(), self.journal.clone());
        // The next run continues from what has arrived by then.
        let fetched = self.stop.abandon("fetch", Duration::ZERO, move || {
            fetch(&hub, &|notice| record_notice(&journal, field, notice))
        })?;
        fetched.map_err(|source| RunError::Hub { field, source })
    }
}

fn record_notice(journal: &Journal, field: &str, notice: Notice<'_>) {
    // The next event of the run reports a log that cannot be written.
    let _ = match notice {
        Notice::Resolved { repository, commit } => {
            journal.info(format!("{field} is {repository} at {commit}"))
        }
        Notice::Unreachable { repository, message } => {
            let message = format!("{message}; the run uses {repository} from the cache");
            journal.warn("HUB_UNREACHABLE", message)
        }
    };
}

/// Records downloads as events.
#[derive(Debug)]
struct DownloadEvents {
    reporter: Reporter,
    stop: Stop,
    under_way: Mutex<HashMap<String, UnderWay>>,
}

#[derive(Debug)]
struct UnderWay {
    started: Instant,
    reported: Instant,
}

impl DownloadObserver for DownloadEvents {
    fn progressed(&self, name: &str, bytes: u64, bytes_total: u64) {
        if self.is_cancelled() {
            return;
        }
        let now = Instant::now();
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        self.reporter.activity.enter(Phase::Fetch);
        let download =
            under_way.entry(name.to_owned()).or_insert(UnderWay { started: now, reported: now });
        let is_complete = bytes >= bytes_total;
        if !is_complete && now - download.reported < REPORT_EVERY {
            return;
        }
        download.reported = now;
        let seconds = (now - download.started).as_secs_f64();
        if is_complete {
            under_way.remove(name);
            self.reporter.activity.enter(Phase::Idle);
        }
        let fetched = Fetched { name: name.to_owned(), bytes, bytes_total, seconds };
        // The next event of the run reports a log that cannot be written.
        let _ = self.reporter.journal.record(Kind::Fetched(fetched));
    }

    fn is_cancelled(&self) -> bool {
        self.stop.reason().is_some()
    }
}
