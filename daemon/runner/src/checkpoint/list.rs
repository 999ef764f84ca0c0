//! Lists the checkpoints of an output folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use traind_folders::{
    PARTIAL, Record, checkpoint_steps, displace_checkpoint, is_checkpoint_of_traind,
    remove_checkpoint,
};

use crate::error::RunResult;
use crate::output::{CHECKPOINT_PREFIX, checkpoint_folder, failed};

/// The folder of a checkpoint that is being written or removed.
pub(super) fn partial_folder(output_dir: &Path, step: u64) -> PathBuf {
    let mut folder = checkpoint_folder(output_dir, step).into_os_string();
    folder.push(PARTIAL);
    folder.into()
}

/// Returns all checkpoints, the newest first.
pub(super) fn newest_first(output_dir: &Path) -> RunResult<Vec<(u64, PathBuf)>> {
    let mut found =
        checkpoint_steps(output_dir).map_err(failed("list the checkpoints in", output_dir))?;
    found.reverse();
    Ok(found)
}

/// Removes the partial folders of a run that was killed, all of which are recorded.
pub(super) fn remove_leftovers(output_dir: &Path) -> RunResult<()> {
    let record = read_record(output_dir)?;
    let found = partial_folders(output_dir).map_err(failed("list leftovers in", output_dir))?;
    for (step, path) in found {
        if record.as_ref().is_none_or(|record| record.has_checkpoint(step)) {
            remove(&path)?;
        }
    }
    let parts = traind_folders::parts(output_dir);
    match parts.exists() {
        true => fs::remove_dir_all(&parts).map_err(failed("remove", &parts)),
        false => Ok(()),
    }
}

/// Returns the record of a folder of checkpoints. Folders without one are the run's alone.
pub(super) fn read_record(folder: &Path) -> RunResult<Option<Record>> {
    Record::read(folder).map_err(failed("read the record of", folder))
}

/// Makes room for the checkpoint of `step`, and records it: removes a folder that traind wrote and sets another's
/// aside. Returns the folders that were set aside.
pub(super) fn make_room(folder: &Path, step: u64) -> RunResult<Vec<PathBuf>> {
    let aside = record(folder, step)?;
    for path in [partial_folder(folder, step), checkpoint_folder(folder, step)] {
        remove(&path)?;
    }
    Ok(aside)
}

/// Records the checkpoint of `step`, and sets aside what is in its place and is not traind's. Returns the folders that
/// were set aside.
pub(super) fn record(folder: &Path, step: u64) -> RunResult<Vec<PathBuf>> {
    let failed_record = failed("record a checkpoint in", folder);
    if Record::add_checkpoint(folder, step).map_err(failed_record)? {
        return Ok(Vec::new());
    }
    let mut aside = Vec::new();
    for path in [partial_folder(folder, step), checkpoint_folder(folder, step)] {
        if path.symlink_metadata().is_ok() && !is_checkpoint_of_traind(&path) {
            aside.push(displace_checkpoint(&path).map_err(failed("rename", &path))?);
        }
    }
    Ok(aside)
}

/// Removes the folder of a checkpoint that traind wrote, if there is one. If it has files of others, they remain in a
/// folder of another name.
pub(super) fn remove(path: &Path) -> RunResult<()> {
    match path.exists() {
        true => remove_existing(path).map_err(failed("remove", path)),
        false => Ok(()),
    }
}

pub(super) fn remove_existing(path: &Path) -> io::Result<()> {
    match remove_checkpoint(path)? {
        true => Ok(()),
        false => displace_checkpoint(path).map(drop),
    }
}

fn partial_folders(output_dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(output_dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let step = name.to_str().and_then(|name| {
            name.strip_prefix(CHECKPOINT_PREFIX)?.strip_suffix(PARTIAL)?.parse().ok()
        });
        found.extend(step.filter(|_| entry.path().is_dir()).map(|step| (step, entry.path())));
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

    #[test]
    fn only_recorded_folders_are_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let make = |name: &str, files: &[&str]| {
            fs::create_dir_all(folder.join(name)).unwrap();
            for file in files {
                fs::write(folder.join(name).join(file), "bytes").unwrap();
            }
        };
        make("checkpoint-1", &["optimizer.pt"]);
        make("checkpoint-2.partial", &["model.safetensors"]);
        Record::begin(folder, traind_folders::Claim { job: "a", name: "a" }).unwrap();
        assert_eq!(record(folder, 1).unwrap(), [folder.join("checkpoint-1.before")]);
        assert!(record(folder, 3).unwrap().is_empty());
        make("checkpoint-3.partial", &["model.safetensors.part"]);
        make("checkpoint-3", &["model.safetensors", "notes.txt"]);
        remove_leftovers(folder).unwrap();
        assert!(folder.join("checkpoint-1.before/optimizer.pt").exists());
        assert!(folder.join("checkpoint-2.partial/model.safetensors").exists());
        assert!(!folder.join("checkpoint-3.partial").exists());
        assert!(make_room(folder, 3).unwrap().is_empty());
        assert!(!folder.join("checkpoint-3").exists());
        assert!(folder.join("checkpoint-3.before/notes.txt").exists());
        assert!(!folder.join("checkpoint-3.before/model.safetensors").exists());
    }
}
