//! The end of the history: removes jobs beyond its limits, with their events, records and run folders.
//! Never removed are output folders and checkpoints of users, and jobs that an unfinished one needs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::daemon::Daemon;
use super::error::Error;
use crate::clock;
use crate::jobs::history;
use crate::jobs::run_dir::RunDir;
use crate::jobs::state::JobState;
use crate::jobs::store::{Beyond, Removable, Store, StoreError};
use crate::settings::Retention;

/// The pause between two looks at the history.
const PERIOD: Duration = Duration::from_secs(600);
/// Jobs that are looked at in one go.
const PAGE: usize = 1000;
const DAY_MICROS: i64 = 24 * 3600 * 1_000_000;
/// The time by which the wall clock may be ahead of what has passed since the last look.
const AHEAD_MAX: i64 = 3600 * 1_000_000;
/// The time for which no job is removed for its age after the wall clock was set forward, which may have been a
/// mistake.
const DOUBT: Duration = Duration::from_secs(24 * 3600);

/// Some jobs that were removed, or would be.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Oldest first. Their sizes include their files.
    pub jobs: Vec<Removable>,
    /// The number of the last job that was looked at, if there may be more.
    pub next: Option<i64>,
}

/// Removes what is beyond the daemon's own limits until it closes.
pub(crate) async fn run(daemon: Arc<Daemon>) {
    let settings = daemon.settings.clone();
    // An earlier daemon may have ended between a job's rows and its folders.
    let state_dir = settings.state_dir.clone();
    let swept = daemon.store.run(move |store| remove_folders(store, &state_dir)).await;
    if let Err(error) = swept {
        tracing::error!(%error, "remove the folders of removed jobs");
    }
    let mut clock = WallClock::new(clock::now(), Instant::now());
    while !settings.retention.is_unlimited() {
        let keep_days = settings.retention.keep_days;
        let keep_days = keep_days.filter(|_| clock.is_trusted(clock::now(), Instant::now()));
        let retention = Retention { keep_days, ..settings.retention };
        if let Err(error) = remove_all(&daemon, retention).await {
            tracing::error!(%error, "remove old jobs; will try again");
        }
        tokio::select! {
            () = daemon.closing.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// Notices when the wall clock is set forward: for a moment, all jobs would seem old.
struct WallClock {
    /// Microseconds since 1970, and the moment at which they were read.
    read: (i64, Instant),
    doubted: Option<Instant>,
}

impl WallClock {
    fn new(time: i64, now: Instant) -> WallClock {
        WallClock { read: (time, now), doubted: None }
    }

    /// Whether ages by the wall clock are to be believed. `time`: what it says `now`.
    fn is_trusted(&mut self, time: i64, now: Instant) -> bool {
        let (last, at) = std::mem::replace(&mut self.read, (time, now));
        let passed = now.saturating_duration_since(at).as_micros() as i64;
        let ahead = time.saturating_sub(last).saturating_sub(passed);
        if ahead > AHEAD_MAX {
            let seconds = ahead / 1_000_000;
            tracing::warn!(
                seconds,
                "the clock was set forward; no job is removed for its age for a day"
            );
            self.doubted = Some(now);
        }
        self.doubted.is_none_or(|since| now.saturating_duration_since(since) > DOUBT)
    }
}

async fn remove_all(daemon: &Arc<Daemon>, retention: Retention) -> Result<(), Error> {
    if retention.is_unlimited() {
        return Ok(());
    }
    let (mut after, mut count, mut bytes) = (Some(0), 0, 0);
    while let Some(from) = after {
        let page = daemon.remove_jobs(retention, false, from).await?;
        count += page.jobs.len();
        bytes += page.jobs.iter().map(|job| job.bytes).sum::<u64>();
        after = page.next.filter(|_| !daemon.closing.is_cancelled());
    }
    if count > 0 {
        tracing::info!(jobs = count, bytes, "removed old jobs");
    }
    Ok(())
}

impl Daemon {
    /// Removes jobs beyond the limits, or only lists them. Looks at some of those after the job with the
    /// number `after`.
    pub(crate) async fn remove_jobs(
        self: &Arc<Daemon>,
        retention: Retention,
        is_dry_run: bool,
        after: i64,
    ) -> Result<Page, Error> {
        let daemon = self.clone();
        let work = move |_: &Store| daemon.remove_blocking(retention, is_dry_run, after);
        Ok(self.store.run(work).await?)
    }

    fn remove_blocking(
        &self,
        retention: Retention,
        is_dry_run: bool,
        after: i64,
    ) -> Result<Page, StoreError> {
        let store = &self.store;
        let found = store.removable(beyond(retention), after, PAGE)?;
        let next = found.last().filter(|_| found.len() == PAGE).map(|job| job.number);
        let needed = store.needed()?;
        let is_needed = |job: &Removable| needed.contains(&job.id) || self.attends(&job.id);
        let mut jobs = Vec::new();
        for job in found.into_iter().filter(|job| !is_needed(job)) {
            jobs.extend(self.measured(job)?);
        }
        if !is_dry_run {
            let removed = store.remove(&jobs)?;
            jobs.retain(|job| removed.contains(&job.id));
            remove_folders(store, &self.settings.state_dir)?;
        }
        if !is_dry_run
            && next.is_none()
            && let Err(error) = store.shrink()
        {
            tracing::warn!(%error, "return the space of removed jobs to the disk");
        }
        Ok(Page { jobs, next })
    }

    /// The job with the size of its files; `None` if they include output of users, or cannot be looked at.
    fn measured(&self, job: Removable) -> Result<Option<Removable>, StoreError> {
        let run_dir = RunDir::new(&self.settings.state_dir, &job.id);
        let is_output = self.store.has_output_below(&run_dir.path().display().to_string())?;
        match history::contents(&run_dir) {
            // Copies of what a completed job has uploaded are none.
            Ok(found) if !is_output && (!found.has_output || is_uploaded(&job)) => {
                let bytes = job.bytes + found.bytes;
                Ok(Some(Removable { bytes, ..job }))
            }
            Ok(_) => Ok(None),
            Err(error) => {
                tracing::warn!(job = job.id, %error, "look at the files of an old job");
                Ok(None)
            }
        }
    }
}

fn is_uploaded(job: &Removable) -> bool {
    job.state == JobState::Completed
        && traind_job_file::DataFiles::is_url(Path::new(&job.output_dir))
}

fn beyond(retention: Retention) -> Beyond {
    let age = |days: u32| clock::now().saturating_sub(i64::from(days).saturating_mul(DAY_MICROS));
    Beyond { keep_jobs: retention.keep_jobs, before: retention.keep_days.map(age) }
}

/// Removes the folders of jobs that the store has removed. One that fails is tried again later.
fn remove_folders(store: &Store, state_dir: &Path) -> Result<(), StoreError> {
    let mut done = Vec::new();
    for id in store.removals()? {
        match history::remove(&RunDir::new(state_dir, &id)) {
            Ok(()) => done.push(id),
            Err(error) => tracing::warn!(job = id, %error, "remove the folders of a job"),
        }
    }
    store.removal_done(&done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_job_is_removed_for_its_age_on_the_day_after_the_clock_was_set_forward() {
        let (start, day) = (Instant::now(), Duration::from_secs(24 * 3600));
        let mut clock = WallClock::new(0, start);
        let micros = |passed: Duration| passed.as_micros() as i64;
        assert!(clock.is_trusted(0, start));
        assert!(clock.is_trusted(micros(PERIOD), start + PERIOD));
        let ahead = 365 * DAY_MICROS;
        assert!(!clock.is_trusted(ahead, start + 2 * PERIOD), "it was set a year ahead");
        assert!(!clock.is_trusted(micros(3 * PERIOD), start + 3 * PERIOD), "and back");
        assert!(!clock.is_trusted(micros(day), start + day));
        let later = day + 3 * PERIOD;
        assert!(clock.is_trusted(micros(later), start + later));
    }
}
