//! The thread that writes checkpoints, one at a time, and removes superseded ones.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use traind_folders::held_steps;
use traind_loader::panic_message;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Saved, SavedKind};

use super::folder::{self, Written};
use super::list::remove_existing;
use super::rotation::Rotation;
use super::shares;
use super::snapshot::Snapshot;
use crate::error::{RunError, RunResult};
use crate::hosts::Hosts;
use crate::model::OpenModel;
use crate::output::checkpoint_folder;
use crate::remote::{Mirror, Publication};
use crate::reporting::Journal;

/// The destination of checkpoints.
#[derive(Debug)]
pub(super) struct Target {
    pub folder: PathBuf,
    pub job_id: String,
    pub open: OpenModel,
    pub journal: Journal,
    pub rotation: Rotation,
    /// Uploads the checkpoints, and removes them from the disk instead of `rotation`.
    pub mirror: Option<Mirror>,
    /// Commits them to the hub.
    pub publication: Option<Publication>,
    /// Present where the hosts hold different parts of the state.
    pub hosts: Option<Hosts>,
}

/// The treatment of a snapshot on this host.
#[derive(Debug)]
pub(super) enum Writing {
    /// Writes the checkpoint, alone or with the others' shares.
    Checkpoint(Box<Target>),
    /// Writes the share of this host, which is not the first.
    Share(Hosts),
}

/// A handle to the thread. Dropping it waits for the checkpoint that is being written.
#[derive(Debug)]
pub(super) struct CheckpointWriter {
    snapshots: Option<Sender<Snapshot>>,
    /// Receives a message for each durable checkpoint.
    written: Receiver<()>,
    pending: usize,
    thread: Option<JoinHandle<RunResult<Option<Mirror>>>>,
}

impl CheckpointWriter {
    pub(super) fn start(mut writing: Writing) -> RunResult<CheckpointWriter> {
        let (snapshots, to_write) = channel::<Snapshot>();
        let (done, written) = channel();
        let thread = std::thread::Builder::new().name("checkpoints".to_owned()).spawn(move || {
            for snapshot in to_write {
                writing.write(snapshot)?;
                // The receiver may be gone.
                let _ = done.send(());
            }
            Ok(writing.into_mirror())
        });
        let thread = thread.map_err(RunError::Thread)?;
        Ok(CheckpointWriter {
            snapshots: Some(snapshots),
            written,
            pending: 0,
            thread: Some(thread),
        })
    }

    /// Starts to write a snapshot.
    pub(super) fn write(&mut self, snapshot: Snapshot) -> RunResult<()> {
        let sent = self.snapshots.as_ref().is_some_and(|to| to.send(snapshot).is_ok());
        self.pending += 1;
        if sent { Ok(()) } else { self.join().map(drop) }
    }

    /// Waits until all snapshots are durable.
    pub(super) fn wait(&mut self) -> RunResult<()> {
        while self.pending > 0 {
            if self.written.recv().is_err() {
                return self.join().map(drop);
            }
            self.pending -= 1;
        }
        Ok(())
    }

    /// Waits until all snapshots are durable; returns the mirror, which may still upload them.
    pub(super) fn finish(mut self) -> RunResult<Option<Mirror>> {
        self.join()
    }

    fn join(&mut self) -> RunResult<Option<Mirror>> {
        self.snapshots = None;
        let Some(thread) = self.thread.take() else { return Ok(None) };
        thread.join().unwrap_or_else(|panic| Err(RunError::Panicked(panic_message(panic.as_ref()))))
    }
}

impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        // The run already ends with another error.
        let _ = self.join();
    }
}

impl Writing {
    fn write(&mut self, snapshot: Snapshot) -> RunResult<()> {
        match self {
            Writing::Checkpoint(target) => target.write(snapshot),
            Writing::Share(hosts) => {
                shares::write(hosts, Path::new(""), snapshot.share())?;
                shares::complete(hosts)
            }
        }
    }

    fn into_mirror(self) -> Option<Mirror> {
        match self {
            Writing::Checkpoint(target) => target.mirror,
            Writing::Share(_) => None,
        }
    }
}

impl Target {
    fn write(&mut self, snapshot: Snapshot) -> RunResult<()> {
        let start = Instant::now();
        let (step, best, epoch) = (snapshot.step, snapshot.best, snapshot.trainer.epoch);
        let stall_seconds = snapshot.stall_seconds;
        let (folder, hosts) = (&self.folder, self.hosts.as_ref());
        let written = folder::write(folder, &self.job_id, &self.open, snapshot, hosts)?;
        let Written { path, bytes, aside } = written;
        for aside in aside {
            let message =
                format!("traind did not write checkpoint-{step}, which is now {}", aside.display());
            self.journal.warn("CHECKPOINT_SET_ASIDE", message)?;
        }
        self.journal.record(Kind::Saved(Saved {
            path: path.display().to_string(),
            kind: SavedKind::Checkpoint.into(),
            step,
            bytes,
            seconds: start.elapsed().as_secs_f64(),
            stall_seconds,
        }))?;
        if let Some(publication) = &self.publication {
            publication.add(&path, step, epoch)?;
        }
        if let Some(mirror) = &self.mirror {
            return mirror.add(step, best);
        }
        let held = held_steps(&self.folder, &self.job_id);
        for step in self.rotation.add(step, best, &held) {
            self.remove(step)?;
        }
        Ok(())
    }

    /// A failure is only a warning: the folder wastes space and harms nothing else.
    fn remove(&self, step: u64) -> RunResult<()> {
        if let Err(error) = remove_folder(&self.folder, step) {
            let path = checkpoint_folder(&self.folder, step);
            let message = format!("remove {}: {error}", path.display());
            self.journal.warn("CHECKPOINT_NOT_REMOVED", message)?;
        }
        Ok(())
    }
}

/// Removes a checkpoint.
pub(super) fn remove_folder(folder: &Path, step: u64) -> std::io::Result<()> {
    remove_existing(&checkpoint_folder(folder, step))
}
