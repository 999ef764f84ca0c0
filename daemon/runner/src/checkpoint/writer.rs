//! The thread that writes checkpoints, one at a time, and removes those that
//! are superseded.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use traind_loader::panic_message;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Saved, SavedKind};

use super::folder;
use super::list::{folder_name, partial};
use super::rotation::Rotation;
use super::snapshot::Snapshot;
use crate::control::Journal;
use crate::error::{RunError, RunResult};
use crate::model::OpenModel;

/// What is written where.
#[derive(Debug)]
pub(super) struct Target {
    pub output_dir: PathBuf,
    pub job_id: String,
    pub open: OpenModel,
    pub journal: Journal,
    pub rotation: Rotation,
}

/// Dropping it waits for the checkpoint that is being written.
#[derive(Debug)]
pub(super) struct CheckpointWriter {
    snapshots: Option<Sender<Snapshot>>,
    /// One message for each snapshot that is durable.
    written: Receiver<()>,
    under_way: usize,
    thread: Option<JoinHandle<RunResult<()>>>,
}

impl CheckpointWriter {
    pub(super) fn start(mut target: Target) -> RunResult<CheckpointWriter> {
        let (snapshots, to_write) = channel::<Snapshot>();
        let (done, written) = channel();
        let thread = std::thread::Builder::new().name("checkpoints".to_owned()).spawn(move || {
            for snapshot in to_write {
                target.write(&snapshot)?;
                // Nobody may be waiting any more.
                let _ = done.send(());
            }
            Ok(())
        });
        let thread = thread.map_err(RunError::Thread)?;
        Ok(CheckpointWriter {
            snapshots: Some(snapshots),
            written,
            under_way: 0,
            thread: Some(thread),
        })
    }

    /// Hands a snapshot over.
    pub(super) fn write(&mut self, snapshot: Snapshot) -> RunResult<()> {
        let sent = self.snapshots.as_ref().is_some_and(|to| to.send(snapshot).is_ok());
        self.under_way += 1;
        if sent { Ok(()) } else { self.join() }
    }

    /// Waits until all that was handed over is durable.
    pub(super) fn wait(&mut self) -> RunResult<()> {
        while self.under_way > 0 {
            if self.written.recv().is_err() {
                return self.join();
            }
            self.under_way -= 1;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> RunResult<()> {
        self.join()
    }

    fn join(&mut self) -> RunResult<()> {
        self.snapshots = None;
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let panicked = |panic: Box<dyn std::any::Any + Send>| {
            Err(RunError::Panicked(panic_message(panic.as_ref())))
        };
        thread.join().unwrap_or_else(panicked)
    }
}

impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        // The run ends with an error of its own already.
        let _ = self.join();
    }
}

impl Target {
    fn write(&mut self, snapshot: &Snapshot) -> RunResult<()> {
        let start = Instant::now();
        let (path, bytes) = folder::write(&self.output_dir, &self.job_id, &self.open, snapshot)?;
        self.journal.record(Kind::Saved(Saved {
            path: path.display().to_string(),
            kind: SavedKind::Checkpoint.into(),
            step: snapshot.step,
            bytes,
            seconds: start.elapsed().as_secs_f64(),
            stall_seconds: snapshot.stall_seconds,
        }))?;
        for step in self.rotation.add(snapshot.step, snapshot.best) {
            self.remove(step)?;
        }
        Ok(())
    }

    /// One that cannot be removed takes up room and harms nothing else. It loses its name first:
    /// half a checkpoint must not look like one.
    fn remove(&self, step: u64) -> RunResult<()> {
        let path = self.output_dir.join(folder_name(step));
        let aside = partial(&self.output_dir, step);
        if let Err(error) = fs::rename(&path, &aside).and_then(|()| fs::remove_dir_all(&aside)) {
            let message = format!("remove {}: {error}", path.display());
            self.journal.warn("CHECKPOINT_NOT_REMOVED", message)?;
        }
        Ok(())
    }
}
