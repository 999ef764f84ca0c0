//! Protects the files in the folders that jobs write.
//!
//! A folder is identified by its place on the disk, not by its spelling ([`Identity`]). A run holds a lock in the
//! folders that it writes ([`FolderLock`]) and keeps a [`Record`] there of the files and checkpoints that traind
//! wrote. Nothing else is ever removed or replaced, unless the job file sets `train.overwrite_output_dir`. The daemon
//! checks this at submission, and the runner once more when it starts ([`conflict`]).
//!
//! All of it is in the folder [`NOTES`] of the output folder and of the folder of checkpoints.

mod checkpoints;
mod conflict;
mod contents;
mod holds;
mod identity;
mod intent;
mod lock;
mod names;
mod place;
mod problem;
mod record;
mod remote;

use std::path::{Path, PathBuf};

pub use checkpoints::{
    CHECKPOINT_PREFIX, PARTIAL, checkpoint_steps, displace_checkpoint, is_checkpoint_of_traind,
    job_of_checkpoint, remove_checkpoint, step_of_checkpoint,
};
pub use conflict::{Conflict, conflict, may_replace};
pub use holds::{held_steps, hold, release};
pub use identity::{FolderKey, Identity, Relation};
pub use intent::{Intent, Origin, Writes};
pub use lock::{FolderLock, Holder, holder};
pub use names::{MODEL_CARD, is_adapter, is_model};
pub use place::{Place, objection};
pub use problem::Problem;
pub use record::{Claim, Record};
pub use remote::{RemoteFolder, Use, record_name};

/// The size of the largest note or manifest that is read. Folders are their users', and so may be anything in them.
const NOTE_BYTES_MAX: u64 = 16 << 20;

/// The folder, in each folder that a job writes, of everything that traind notes about it.
pub const NOTES: &str = ".traind";

/// A folder among the notes of a folder of checkpoints, for the parts of a model that several hosts save.
pub fn parts(folder: &Path) -> PathBuf {
    note(folder, "parts")
}

/// The path of a file among the notes of a folder.
fn note(folder: &Path, name: &str) -> PathBuf {
    folder.join(NOTES).join(name)
}
