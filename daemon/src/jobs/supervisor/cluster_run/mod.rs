//! A job in a cluster: asks about it every few seconds, and stops it.

mod changes;
mod suspicion;
mod watch;

use std::time::{Duration, Instant};

use crate::access::account::Account;
use crate::jobs::cluster::{ClusterError, ClusterJob, Condition, End, Report};

use changes::Changes;

pub(super) use suspicion::suspicion;

/// How often a cluster is asked about a job that changed just now, and about others.
const PERIODS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// How long a job counts as changed just now.
const RECENT: Duration = Duration::from_secs(20);

/// One run of a job in a cluster.
#[derive(Debug)]
pub(in crate::jobs::supervisor) struct ClusterRun {
    job: ClusterJob,
    account: Option<Account>,
    report: Option<Report>,
    asked: Option<Instant>,
    changed: Instant,
    /// When it began to run.
    since: Option<Instant>,
    /// Its last event is known, so that its end is near.
    has_finished: bool,
    /// Why the cluster could not be asked the last time; empty if it answered.
    trouble: String,
    /// Changes that are stored as events.
    changes: Changes,
    /// The report differs from what is stored.
    is_unreported: bool,
}

impl ClusterRun {
    pub(super) fn new(job: ClusterJob, account: Option<Account>) -> ClusterRun {
        let (report, asked, since) = (None, None, None);
        let (changed, has_finished) = (Instant::now(), false);
        let (trouble, changes) = (String::new(), Changes::new(Instant::now()));
        ClusterRun {
            job,
            account,
            report,
            asked,
            changed,
            since,
            has_finished,
            trouble,
            changes,
            is_unreported: false,
        }
    }

    /// Asks the cluster, if it is time to. Returns the report if it differs from the one before.
    pub(super) async fn refresh(&mut self) -> Result<Option<Report>, ClusterError> {
        let now = Instant::now();
        let period = if now < self.changed + RECENT { PERIODS.0 } else { PERIODS.1 };
        if self.asked.is_some_and(|asked| now < asked + period) {
            return Ok(None);
        }
        self.asked = Some(now);
        let report = self.job.report(self.account).await?;
        let before = self.report.replace(report.clone());
        let had_trouble = !std::mem::take(&mut self.trouble).is_empty();
        if let Condition::Running(elapsed) = report.condition
            && self.since.is_none()
        {
            self.since = Some(now.checked_sub(elapsed).unwrap_or(now));
        }
        if matches!(
            report.condition,
            Condition::Waiting(_) | Condition::Suspended(_) | Condition::Paused(_)
        ) {
            self.since = None;
        }
        let is_known = !had_trouble && !self.is_unreported;
        if is_known && before.is_some_and(|before| is_same(&before, &report)) {
            return Ok(None);
        }
        self.changed = now;
        // Others are reported when the cluster is asked again.
        self.is_unreported = !self.has_ended() && !self.changes.permit(now);
        Ok((!self.is_unreported).then_some(report))
    }

    /// When it began to run; `None` while it waits.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Whether the cluster has ended it, or has forgotten it.
    pub(super) fn has_ended(&self) -> bool {
        let condition = self.report.as_ref().map(|report| &report.condition);
        matches!(condition, Some(Condition::Ended(_) | Condition::Unknown))
    }

    /// How it ended, if the cluster reported that.
    pub(super) fn end(&self) -> Option<End> {
        match &self.report.as_ref()?.condition {
            Condition::Ended(end) => Some(end.clone()),
            _ => None,
        }
    }

    /// Asks the runners to end after the current step.
    pub(super) async fn cancel(&self) -> Result<(), ClusterError> {
        match self.is_running() {
            true => self.job.cancel(self.account).await,
            false => self.remove().await,
        }
    }

    /// Asks the runners to save a checkpoint and leave.
    pub(super) async fn interrupt(&self) -> Result<(), ClusterError> {
        match self.is_running() {
            true => self.job.interrupt(self.account).await,
            false => self.remove().await,
        }
    }

    /// Ends the job and its processes.
    pub(super) async fn remove(&self) -> Result<(), ClusterError> {
        self.job.remove(self.account).await
    }

    /// Asks the cluster again at once.
    pub(super) fn hurry(&mut self) {
        (self.asked, self.changed) = (None, Instant::now());
    }

    fn is_waiting(&self) -> bool {
        let condition = self.report.as_ref().map(|report| &report.condition);
        matches!(condition, Some(Condition::Waiting(_) | Condition::Suspended(_)))
    }

    fn is_running(&self) -> bool {
        let condition = self.report.as_ref().map(|report| &report.condition);
        matches!(condition, Some(Condition::Running(_)))
    }
}

/// Whether two reports differ in time alone.
fn is_same(before: &Report, after: &Report) -> bool {
    let conditions = match (&before.condition, &after.condition) {
        (Condition::Running(_), Condition::Running(_)) => true,
        (before, after) => before == after,
    };
    conditions && before.restarts == after.restarts && before.hosts == after.hosts
}
