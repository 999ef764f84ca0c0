//! The names of checkpoints in an output folder, which are transformers' own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::RunResult;
use crate::output::failed;

const PREFIX: &str = "checkpoint-";
/// Ends the name of a folder that is not whole, or not needed any more.
const PARTIAL: &str = ".partial";

pub(crate) fn folder_name(step: u64) -> String {
    format!("{PREFIX}{step}")
}

/// The checkpoint of a step before it gets its name, and after it lost it.
pub(super) fn partial(output_dir: &Path, step: u64) -> PathBuf {
    output_dir.join(folder_name(step) + PARTIAL)
}

/// All checkpoints, the newest first.
pub(super) fn newest_first(output_dir: &Path) -> RunResult<Vec<(u64, PathBuf)>> {
    let mut found = entries(output_dir, |name| name.parse().ok())
        .map_err(failed("list the checkpoints in", output_dir))?;
    found.sort_by_key(|(step, _)| std::cmp::Reverse(*step));
    Ok(found)
}

/// Removes what a run left that was ended while it wrote.
pub(super) fn remove_leftovers(output_dir: &Path) -> RunResult<()> {
    let step = |name: &str| name.strip_suffix(PARTIAL)?.parse().ok();
    let found = entries(output_dir, step).map_err(failed("list leftovers in", output_dir))?;
    for (_, path) in found {
        fs::remove_dir_all(&path).map_err(failed("remove", &path))?;
    }
    Ok(())
}

/// Folders whose name holds a step behind the prefix.
fn entries(
    output_dir: &Path,
    step: impl Fn(&str) -> Option<u64>,
) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(output_dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(&step);
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
    fn checkpoints_are_told_from_what_is_not_whole() {
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
