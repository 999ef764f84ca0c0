//! A run that was started without the daemon: read from its folder, and asked to stop by a file there.

use std::io;
use std::time::{Duration, Instant};

use traind_proto::run_status::{CANCEL, INTERRUPT};

use crate::jobs::cluster::{End, EndKind};
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::Job;

/// How long a run may report nothing. Its first host writes a status every two seconds, and clients of a file server
/// may see it late.
const SILENCE_MAX: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct AdoptedRun {
    run_dir: RunDir,
    /// The newest status, and the offset of the log.
    newest: (u64, u64),
    /// When either changed.
    moved: Instant,
    has_finished: bool,
}

impl AdoptedRun {
    pub(super) fn new(run_dir: RunDir) -> AdoptedRun {
        AdoptedRun { run_dir, newest: (0, 0), moved: Instant::now(), has_finished: false }
    }

    /// Notes signs of life. `job` has all events that were written before the last call.
    pub(super) fn observe(&mut self, job: &Job, now: Instant) {
        let number = self.run_dir.last_status().map_or(0, |status| status.number);
        let newest = (number, job.log_offset);
        if newest != self.newest {
            (self.newest, self.moved) = (newest, now);
        }
        self.has_finished = job.finished.is_some();
    }

    pub(super) fn has_ended(&self, now: Instant) -> bool {
        self.has_finished || self.silence(now).is_some()
    }

    /// The end of a run that reports nothing any more.
    pub(super) fn end(&self, now: Instant) -> Option<End> {
        let silence = self.silence(now).filter(|_| !self.has_finished)?;
        let seconds = silence.as_secs();
        let description = format!(
            "the run, which was started without the daemon, has reported nothing for {seconds} s"
        );
        Some(End { kind: EndKind::Failed, elapsed: silence, description, host: None })
    }

    /// Asks it to end after the current step.
    pub(super) fn cancel(&self) -> io::Result<()> {
        self.run_dir.request_stop(CANCEL)
    }

    /// Asks it to save a checkpoint and leave.
    pub(super) fn interrupt(&self) -> io::Result<()> {
        self.run_dir.request_stop(INTERRUPT)
    }

    fn silence(&self, now: Instant) -> Option<Duration> {
        let silence = now.saturating_duration_since(self.moved);
        (silence > SILENCE_MAX).then_some(silence)
    }
}

#[cfg(test)]
mod tests {
    use traind_proto::run_status;
    use traind_proto::v1::RunStatus;

    use super::*;
    use crate::jobs::store::{NewJob, Store};

    #[test]
    fn a_run_has_ended_when_it_says_so_or_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let mut job = store.create(&NewJob { id: "a".into(), ..NewJob::default() }).unwrap();
        let run_dir = RunDir::new(folder.path(), "a");
        run_dir.create(None).unwrap();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut run = AdoptedRun::new(run_dir.clone());
        for (number, second) in (1..).zip([100, 200, 300]) {
            let status = RunStatus { number, ..RunStatus::default() };
            run_status::write(run_dir.path(), &status).unwrap();
            run.observe(&job, after(second));
            assert!(!run.has_ended(after(second)), "{second}");
        }
        run.observe(&job, after(421));
        assert!(run.has_ended(after(421)));
        assert!(run.end(after(421)).unwrap().description.contains("nothing for 121 s"));
        // A step was logged.
        job.log_offset = 7;
        run.observe(&job, after(422));
        assert!(!run.has_ended(after(423)) && run.end(after(423)).is_none());
        job.finished = Some(Default::default());
        run.observe(&job, after(423));
        assert!(run.has_ended(after(423)) && run.end(after(999)).is_none());
    }
}
