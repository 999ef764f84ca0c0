//! Holds on checkpoints from which a job that waits will resume. The run that wrote them does not remove them
//! meanwhile, whatever its `save_total_limit`.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use traind_durable::read_regular;

use crate::{NOTE_BYTES_MAX, note};

const HOLDS: &str = "holds";

/// Holds the checkpoint of `step` in a folder for `job`.
pub fn hold(folder: &Path, step: u64, job: &str) -> io::Result<()> {
    let holds = note(folder, HOLDS);
    fs::create_dir_all(&holds)?;
    traind_durable::replace(&holds.join(job), step.to_string().as_bytes())
}

/// Releases the checkpoint that `job` holds in a folder, if any.
pub fn release(folder: &Path, job: &str) -> io::Result<()> {
    match fs::remove_file(note(folder, HOLDS).join(job)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the steps of the checkpoints of a folder that jobs other than `own` hold.
pub fn held_steps(folder: &Path, own: &str) -> Vec<u64> {
    let entries = fs::read_dir(note(folder, HOLDS)).into_iter().flatten().flatten();
    let mut steps: Vec<u64> = entries
        .filter(|entry| entry.file_name() != own)
        .filter_map(|entry| {
            let step = read_regular(&entry.path(), NOTE_BYTES_MAX).ok()?;
            String::from_utf8(step).ok()?.trim().parse().ok()
        })
        .collect();
    steps.sort_unstable();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_held_until_the_last_job_releases_it() {
        let folder = tempfile::tempdir().unwrap();
        release(folder.path(), "a").unwrap();
        assert!(held_steps(folder.path(), "own").is_empty());
        hold(folder.path(), 20, "a").unwrap();
        hold(folder.path(), 30, "own").unwrap();
        hold(folder.path(), 20, "b").unwrap();
        hold(folder.path(), 10, "c").unwrap();
        assert_eq!(held_steps(folder.path(), "own"), [10, 20, 20]);
        release(folder.path(), "a").unwrap();
        release(folder.path(), "c").unwrap();
        assert_eq!(held_steps(folder.path(), "own"), [20]);
    }
}
