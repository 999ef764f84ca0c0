//! Repeats calls of a bucket or of the hub that fail.

use std::fmt::Display;
use std::time::{Duration, Instant};

use traind_bucket::{Error as BucketError, Problem as BucketProblem};
use traind_hub::{Error as HubError, Problem as HubProblem};

use crate::reporting::{Journal, print_line};

const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// The time between two warnings. Shorter than that after which a silent runner counts as hung.
const WARN_EVERY: Duration = Duration::from_secs(120);
/// How long calls may fail when nothing else is left to do.
const AT_END: Duration = Duration::from_secs(600);
/// How long calls may fail when the runner must leave its host, which waits for half a minute.
const AT_EXIT: Duration = Duration::from_secs(20);

/// An operation that a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Nothing: training continues meanwhile.
    None,
    /// The upload, which is the end of the run.
    Last,
    /// The upload, before the runner leaves its host.
    Leaving,
    /// Nothing: the run is to end at once.
    Abandoned,
}

/// An error of an upload.
pub(super) trait UploadError: Display {
    /// Whether the same call may succeed later.
    fn may_pass(&self) -> bool;

    /// Whether no other call can succeed: the upload was abandoned, or its files cannot be read.
    fn is_final(&self) -> bool;
}

impl UploadError for BucketError {
    fn may_pass(&self) -> bool {
        self.problem.may_pass()
    }

    fn is_final(&self) -> bool {
        matches!(*self.problem, BucketProblem::Abandoned | BucketProblem::Io { .. })
    }
}

impl UploadError for HubError {
    fn may_pass(&self) -> bool {
        self.problem.may_pass()
    }

    fn is_final(&self) -> bool {
        matches!(*self.problem, HubProblem::Abandoned | HubProblem::Io { .. })
    }
}

/// Calls `work` until it succeeds. While training continues, that is tried without end, and problems
/// are warned about. Otherwise one that cannot pass is an error, and so is one that does not pass in
/// time.
pub(super) fn persist<T, E: UploadError>(
    journal: &Journal,
    urgency: &dyn Fn() -> Urgency,
    mut work: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut pause = PAUSE_MIN;
    let mut warned: Option<Instant> = None;
    let mut waited_for: Option<Instant> = None;
    loop {
        let error = match work() {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let now = Instant::now();
        let since = match urgency() {
            Urgency::None => None,
            _ => Some(*waited_for.get_or_insert(now)),
        };
        let may_pass = error.may_pass();
        let gives_up = match (urgency(), since) {
            (Urgency::None, _) | (_, None) => false,
            (Urgency::Abandoned, _) => true,
            (Urgency::Last, Some(since)) => !may_pass || now - since > AT_END,
            (Urgency::Leaving, Some(since)) => !may_pass || now - since > AT_EXIT,
        };
        if gives_up || error.is_final() {
            return Err(error);
        }
        if warned.is_none_or(|warned| now - warned >= WARN_EVERY) {
            warned = Some(now);
            let message = format!("{error}; the upload is tried again");
            if let Err(error) = journal.warn("UPLOAD_DELAYED", message) {
                // The next event of the run fails in the same way.
                print_line(format_args!("warning: record an event: {error}"));
            }
        }
        sleep(pause, urgency);
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Sleeps, but not longer than the run may wait.
fn sleep(pause: Duration, urgency: &dyn Fn() -> Urgency) {
    let (start, before) = (Instant::now(), urgency());
    while start.elapsed() < pause && urgency() == before {
        std::thread::sleep(LOOK);
    }
}
