//! Step gates: a job waits after a step, or before it tokenizes later rows, until the test opens its gate. See the
//! runner's `reporting/step_gates.rs`.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

/// A closed gate of a job. Dropping it opens it.
#[derive(Debug)]
#[must_use = "a gate that is dropped is open"]
pub struct Gate {
    folder: PathBuf,
    name: String,
}

impl Gate {
    /// Closes the gate of this name of the job whose gates are in `folder`.
    pub(crate) fn close(folder: PathBuf, name: impl Display) -> Gate {
        fs::create_dir_all(&folder).unwrap();
        let gate = Gate { folder, name: name.to_string() };
        fs::write(gate.path(), []).unwrap();
        gate
    }

    /// The step that the gate is after.
    pub fn step(&self) -> u64 {
        self.name.parse().unwrap()
    }

    /// Lets the job continue.
    pub fn open(self) {}

    /// Whether the job waits at the gate, or has waited there.
    pub fn is_reached(&self) -> bool {
        self.path().with_extension("reached").exists()
    }

    fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        remove(&self.path());
        remove(&self.path().with_extension("reached"));
    }
}

fn remove(path: &Path) {
    // The host's folder may have been removed first.
    let _ = fs::remove_file(path);
}
