//! Lists the checkpoints of an output folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::RunResult;
use crate::output::{CHECKPOINT_PREFIX, checkpoint_folder, failed};

/// The suffix of a folder that is being written or removed.
const PARTIAL: &str = ".partial";

/// The folder of a checkpoint that is being written or removed.
pub(super) fn partial_folder(output_dir: &Path, step: u64) -> PathBuf {
    let mut folder = checkpoint_folder(output_dir, step).into_os_string();
    folder.push(PARTIAL);
    folder.into()
}

/// Returns all checkpoints, the newest first.
pub(super) fn newest_first(output_dir: &Path) -> RunResult<Vec<(u64, PathBuf)>> {
    let mut found = entries(output_dir, |name| name.parse().ok())
        .map_err(failed("list the checkpoints in", output_dir))?;
    found.sort_by_key(|(step, _)| std::cmp::Reverse(*step));
    Ok(found)
}

/// Removes the partial folders of a run that was killed.
pub(super) fn remove_leftovers(output_dir: &Path) -> RunResult<()> {
    let step = |name: &str| name.strip_suffix(PARTIAL)?.parse().ok();
    let found = entries(output_dir, step).map_err(failed("list leftovers in", output_dir))?;
    for (_, path) in found {
        fs::remove_dir_all(&path).map_err(failed("remove", &path))?;
    }
    Ok(())
}

/// Returns the folders from whose names, without the prefix, `step` parses a number.
fn entries(
    output_dir: &Path,
    step: impl Fn(&str) -> Option<u64>,
) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(output_dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix(CHECKPOINT_PREFIX)).and_then(&step);
        if let Some(number) = number.filter(|_| entry.path().is_dir()) {
            found.push((number, entry.path()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_folders_are_no_checkpoints() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["checkpoint-9", "checkpoint-10", "checkpoint-11.partial", "checkpoint-best"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("checkpoint-12"), "a file").unwrap();
        let steps = || -> Vec<u64> {
            newest_first(folder.path()).unwrap().into_iter().map(|(step, _)| step).collect()
        };
        assert_eq!(steps(), [10, 9]);
        remove_leftovers(folder.path()).unwrap();
        assert!(!folder.path().join("checkpoint-11.partial").exists());
        assert_eq!(steps(), [10, 9]);
    }
}
