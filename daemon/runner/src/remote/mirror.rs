//! The thread that uploads checkpoints while training continues, one at a time, and removes
//! superseded ones: from the bucket by `save_total_limit`, and from the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use traind_bucket::{Bucket, Location};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{SavedKind, Uploaded};

use super::backlog::{Backlog, Ending};
use super::patience::Urgency;
use super::queue::Queue;
use super::{Remote, run_error};
use crate::error::{RunError, RunResult};
use crate::output::{CHECKPOINT_PREFIX, checkpoint_folder};
use crate::reporting::{Journal, Stop, StopReason};

const FIELD: &str = "checkpoint_dir";

/// The checkpoints on the disk from which a mirror is kept.
#[derive(Debug)]
pub(crate) struct Staged {
    pub folder: PathBuf,
    /// The steps whose checkpoints exist already.
    pub steps: Vec<u64>,
    /// The best of them.
    pub best: Option<u64>,
    /// Removes one.
    pub remove: fn(&Path, u64) -> std::io::Result<()>,
}

/// Adds a checkpoint to those of the bucket, and returns the ones to remove there.
pub(crate) type Rotate = Box<dyn FnMut(u64, Option<u64>) -> Vec<u64> + Send>;

/// A handle to the thread. Dropping it abandons what is not uploaded.
#[derive(Debug)]
pub(crate) struct Mirror {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<RunResult<()>>>,
}

#[derive(Debug)]
struct Shared {
    backlog: Backlog<Queue>,
    staged: Staged,
    journal: Journal,
    stop: Stop,
}

impl Remote {
    /// Starts the thread, where checkpoints are in a bucket. Uploads the newest staged checkpoint if
    /// it is not among those that are `complete` there, since an earlier attempt may have broken off.
    pub(crate) fn mirror(
        &self,
        staged: Staged,
        complete: &[u64],
        rotate: Rotate,
    ) -> RunResult<Option<Mirror>> {
        let Some(location) = &self.checkpoints else { return Ok(None) };
        let (newest, existing) = (staged.steps.last().copied(), staged.steps.clone());
        let best = staged.best;
        let (journal, stop) = (self.journal.clone(), self.stop.clone());
        let shared = Arc::new(Shared { backlog: Backlog::default(), staged, journal, stop });
        shared.backlog.with(|queue| existing.into_iter().for_each(|step| queue.has(step)));
        let uploads = Uploads {
            bucket: Bucket::open(location.clone()).map_err(run_error(FIELD))?,
            location: location.clone(),
            remote: self.clone(),
            rotate,
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new().name("uploads".to_owned());
        let thread = thread.spawn(move || uploads.run()).map_err(RunError::Thread)?;
        let mirror = Mirror { shared, thread: Some(thread) };
        if let Some(step) = newest.filter(|step| !complete.contains(step)) {
            mirror.add(step, best)?;
        }
        Ok(Some(mirror))
    }
}

impl Mirror {
    /// Uploads a checkpoint that was written. `best` is the best one so far.
    pub(crate) fn add(&self, step: u64, best: Option<u64>) -> RunResult<()> {
        let left_out = self.shared.backlog.with(|queue| queue.add(step, best));
        for step in left_out {
            let message = format!(
                "checkpoint-{step} is not uploaded, since newer ones wait already: raise save_steps"
            );
            self.shared.journal.warn("UPLOAD_SKIPPED", message)?;
        }
        self.shared.remove_superseded()
    }

    /// Waits until all checkpoints are uploaded, unless the job was cancelled.
    pub(crate) fn finish(mut self) -> RunResult<()> {
        let leaving = self.shared.stop.reason() == Some(StopReason::Interrupted);
        let ended = self.end(Ending::Finish);
        match ended {
            // The next attempt finds it on the disk.
            Err(RunError::Bucket { source, .. }) if leaving => {
                let message =
                    format!("{source}; the newest checkpoint is only on this host's disk");
                Ok(self.shared.journal.warn("UPLOAD_INCOMPLETE", message)?)
            }
            ended => ended,
        }
    }

    fn end(&mut self, ending: Ending) -> RunResult<()> {
        self.shared.backlog.end(ending, self.thread.take())
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // The run already ends with another error.
            let _ = self.end(Ending::Abandon);
        }
    }
}

impl Shared {
    fn urgency(&self) -> Urgency {
        match (self.backlog.ending(), self.stop.reason()) {
            (Some(Ending::Abandon), _) | (_, Some(StopReason::Cancelled)) => Urgency::Abandoned,
            (None, _) => Urgency::None,
            (Some(Ending::Finish), Some(StopReason::Interrupted)) => Urgency::Leaving,
            (Some(Ending::Finish), None) => Urgency::Last,
        }
    }

    /// Removes the checkpoints that the disk need not hold any longer.
    fn remove_superseded(&self) -> RunResult<()> {
        let removable = self.backlog.with(Queue::take_removable);
        for step in removable {
            if let Err(error) = (self.staged.remove)(&self.staged.folder, step) {
                let path = checkpoint_folder(&self.staged.folder, step);
                let message = format!("remove {}: {error}", path.display());
                self.journal.warn("CHECKPOINT_NOT_REMOVED", message)?;
            }
        }
        Ok(())
    }
}

/// The thread's own part.
struct Uploads {
    bucket: Bucket,
    location: Location,
    remote: Remote,
    rotate: Rotate,
    shared: Arc<Shared>,
}

impl Uploads {
    fn run(mut self) -> RunResult<()> {
        while let Some(step) = self.shared.backlog.next(Queue::begin) {
            match self.upload(step) {
                Err(RunError::Data(traind_loader::Error::Abandoned)) => return Ok(()),
                uploaded => uploaded?,
            }
            self.shared.backlog.with(Queue::end);
            self.shared.remove_superseded()?;
        }
        Ok(())
    }

    fn upload(&mut self, step: u64) -> RunResult<()> {
        let start = Instant::now();
        let shared = Arc::clone(&self.shared);
        let urgency = || shared.urgency();
        let upload = self.remote.upload_to(&self.bucket, FIELD, &urgency);
        let name = |step: u64| format!("{CHECKPOINT_PREFIX}{step}");
        let bytes = upload.checkpoint(&checkpoint_folder(&shared.staged.folder, step), step)?;
        shared.journal.record(Kind::Uploaded(Uploaded {
            url: self.location.url(&name(step)),
            kind: SavedKind::Checkpoint.into(),
            step,
            bytes,
            seconds: start.elapsed().as_secs_f64(),
        }))?;
        let best = shared.backlog.with(|queue| queue.best());
        for step in (self.rotate)(step, best) {
            upload.remove_checkpoint(&name(step))?;
        }
        Ok(())
    }
}
