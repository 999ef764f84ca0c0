//! The checkpoints of a folder: finds, removes and sets them aside, and touches no other files in them.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use traind_durable::read_regular;

use crate::NOTE_BYTES_MAX;
use crate::names::is_of_checkpoint;

/// Precedes the steps in the name of a checkpoint's folder, as in transformers.
pub const CHECKPOINT_PREFIX: &str = "checkpoint-";
const MANIFEST: &str = "manifest.json";
/// The suffix of a folder that is being written or removed.
pub const PARTIAL: &str = ".partial";
/// Follows the name of a checkpoint that is not traind's and in whose place traind writes one.
const ASIDE: &str = ".before";

/// The keys of a manifest that tell whose it is.
#[derive(Deserialize)]
struct Manifest {
    job_id: String,
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    name: String,
}

/// Returns the steps and paths of all checkpoints in a folder, no matter what wrote them, in order.
pub fn checkpoint_steps(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        found.extend(step_of_checkpoint(&path).filter(|_| path.is_dir()).map(|step| (step, path)));
    }
    found.sort();
    Ok(found)
}

/// The step in the name of a checkpoint's folder.
pub fn step_of_checkpoint(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix(CHECKPOINT_PREFIX)?.parse().ok()
}

/// Returns true if traind wrote the checkpoint.
pub fn is_checkpoint_of_traind(path: &Path) -> bool {
    job_of_checkpoint(path).is_some()
}

/// Returns the id of the job that wrote a checkpoint; `None` if traind did not, or if it is not complete.
pub fn job_of_checkpoint(path: &Path) -> Option<String> {
    manifest(path).map(|manifest| manifest.job_id)
}

fn manifest(path: &Path) -> Option<Manifest> {
    serde_json::from_slice(&read_regular(&path.join(MANIFEST), NOTE_BYTES_MAX).ok()?).ok()
}

/// Removes a checkpoint that traind wrote: the files of its manifest and those that an incomplete one may have. Keeps
/// all other files, and with them the folder. Returns true if nothing remains. A folder that is removed as a whole
/// is renamed first, so that a half-removed checkpoint does not look like one.
pub fn remove_checkpoint(path: &Path) -> io::Result<bool> {
    let known = manifest(path).map(|manifest| manifest.files).unwrap_or_default();
    let is_own = |name: &str| is_of_checkpoint(name) || known.iter().any(|file| file.name == name);
    let (mut own, mut remains) = (Vec::new(), false);
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        match is_own(&entry.file_name().to_string_lossy()) && !entry.file_type()?.is_dir() {
            true => own.push(entry.path()),
            false => remains = true,
        }
    }
    if !remains {
        let partial = partial(path);
        if partial != path {
            fs::rename(path, &partial)?;
        }
        fs::remove_dir_all(partial)?;
        return Ok(true);
    }
    // Without its manifest, the checkpoint is not complete.
    own.sort_by_key(|file| !file.ends_with(MANIFEST));
    own.iter().try_for_each(fs::remove_file)?;
    Ok(false)
}

/// The name of a checkpoint's folder while it is written or removed.
fn partial(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    if !path.to_string_lossy().ends_with(PARTIAL) {
        name.push(PARTIAL);
    }
    name.into()
}

/// Renames a folder that traind did not write to the first free name of `checkpoint-STEP.before…`, and returns that.
pub fn displace_checkpoint(path: &Path) -> io::Result<PathBuf> {
    for number in 1.. {
        let mut name = OsString::from(path);
        name.push(if number == 1 { ASIDE.to_owned() } else { format!("{ASIDE}-{number}") });
        let aside = PathBuf::from(name);
        if aside.symlink_metadata().is_err() {
            fs::rename(path, &aside)?;
            return Ok(aside);
        }
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 3] = ["model.safetensors", "optimizer.safetensors", "a-later-version.bin"];

    fn checkpoint(folder: &Path, step: u64) -> PathBuf {
        let path = folder.join(format!("{CHECKPOINT_PREFIX}{step}"));
        fs::create_dir(&path).unwrap();
        for name in FILES {
            fs::write(path.join(name), name).unwrap();
        }
        let files: Vec<_> = FILES.iter().map(|name| serde_json::json!({"name": name})).collect();
        let manifest = serde_json::json!({"job_id": "a", "files": files, "step": step});
        fs::write(path.join(MANIFEST), manifest.to_string()).unwrap();
        path
    }

    #[test]
    fn files_of_others_outlive_a_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (checkpoint(folder.path(), 10), checkpoint(folder.path(), 9));
        fs::write(second.join("notes.txt"), "mine").unwrap();
        fs::create_dir(second.join("config.json")).unwrap();
        assert!(remove_checkpoint(&first).unwrap() && !first.exists());
        assert!(!remove_checkpoint(&second).unwrap());
        let mut left: Vec<_> =
            fs::read_dir(&second).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["config.json", "notes.txt"]);
    }

    #[test]
    fn checkpoints_of_others_are_set_aside_under_free_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint-7");
        for expect in ["checkpoint-7.before", "checkpoint-7.before-2"] {
            fs::create_dir(&path).unwrap();
            assert!(!is_checkpoint_of_traind(&path));
            assert_eq!(displace_checkpoint(&path).unwrap(), folder.path().join(expect));
        }
        assert!(checkpoint_steps(folder.path()).unwrap().is_empty());
        checkpoint(folder.path(), 7);
        checkpoint(folder.path(), 10);
        let found = checkpoint_steps(folder.path()).unwrap();
        assert_eq!(found.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [7, 10]);
        assert_eq!(job_of_checkpoint(&found[0].1).as_deref(), Some("a"));
    }
}
