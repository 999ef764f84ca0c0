//! Finds a checkpoint whose model is to be used while its job may go on.

use std::path::{Path, PathBuf};

use super::list;
use super::manifest::Manifest;
use crate::error::{RunError, RunResult};

/// Returns the steps and the folder of a job's newest complete checkpoint in `folder`, or of the one after `step`
/// steps. The job may remove it at any moment.
pub(crate) fn newest_complete(
    folder: &Path,
    job_id: &str,
    step: Option<u64>,
) -> RunResult<(u64, PathBuf)> {
    let mut own = match folder.is_dir() {
        true => list::newest_first(folder)?,
        false => Vec::new(),
    };
    own.retain(|(_, path)| Manifest::read(path).is_ok_and(|manifest| manifest.job_id == job_id));
    let is_whole = |path: &Path| Manifest::read(path).is_ok_and(|it| it.check(path).is_ok());
    let wanted = |found: u64| step.is_none_or(|step| step == found);
    let mut newest_first = own.iter();
    match newest_first.find(|(found, path)| wanted(*found) && is_whole(path)) {
        Some((found, path)) => Ok((*found, path.clone())),
        None => {
            let known = own.iter().rev().map(|(found, _)| *found).collect();
            Err(RunError::NoSuchCheckpoint { folder: folder.to_owned(), step, known })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::output::checkpoint_folder;

    fn write(folder: &Path, job_id: &str, step: u64) -> PathBuf {
        let path = checkpoint_folder(folder, step);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("model.safetensors"), [1, 2, 3]).unwrap();
        Manifest::write(&path, job_id, step).unwrap();
        path
    }

    #[test]
    fn damaged_checkpoints_and_those_of_other_jobs_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let find = |step| newest_complete(folder.path(), "a", step);
        let message = |step| find(step).unwrap_err().to_string();
        let missing = newest_complete(&folder.path().join("none"), "a", None).unwrap_err();
        assert!(missing.to_string().ends_with("no complete checkpoint of the job yet"));
        for step in [10, 20, 30] {
            write(folder.path(), "a", step);
        }
        write(folder.path(), "b", 40);
        fs::create_dir(folder.path().join("checkpoint-50.partial")).unwrap();
        assert_eq!(find(None).unwrap().0, 30);
        fs::write(checkpoint_folder(folder.path(), 30).join("model.safetensors"), [1]).unwrap();
        assert_eq!(find(None).unwrap(), (20, checkpoint_folder(folder.path(), 20)));
        assert_eq!(find(Some(10)).unwrap().0, 10);
        let expect = "no checkpoint of step 40, but those of steps 10, 20, 30";
        assert!(message(Some(40)).ends_with(expect), "{}", message(Some(40)));
    }
}
