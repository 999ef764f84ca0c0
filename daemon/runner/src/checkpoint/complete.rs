//! Finds a checkpoint whose model is to be used while its job may continue.

use std::path::{Path, PathBuf};

use super::list;
use super::manifest::Manifest;
use crate::error::{RunError, RunResult};

/// The most readings of a folder whose checkpoints the job replaces meanwhile.
const READINGS_MAX: usize = 16;

/// Returns the steps and the folder of a job's newest complete checkpoint in `folder`, or of the one after `step`
/// steps. The job may remove it at any moment.
pub(crate) fn newest_complete(
    folder: &Path,
    job_id: &str,
    step: Option<u64>,
) -> RunResult<(u64, PathBuf)> {
    newest_of(|| listed(folder), folder, job_id, step)
}

/// Returns the same as [`newest_complete`], among the checkpoints that `list` gives. It is asked again where none of
/// them is complete and others have come meanwhile.
fn newest_of(
    mut list: impl FnMut() -> RunResult<Listed>,
    folder: &Path,
    job_id: &str,
    step: Option<u64>,
) -> RunResult<(u64, PathBuf)> {
    let mut checkpoints = Listed::new();
    for _ in 0..READINGS_MAX {
        let before = std::mem::replace(&mut checkpoints, list()?);
        if let Some(found) = complete(&checkpoints, job_id, step) {
            return Ok(found);
        }
        if before == checkpoints {
            break;
        }
    }
    let own = checkpoints.iter().rev().filter(|(_, path)| is_of_job(path, job_id));
    let known = own.map(|(found, _)| *found).collect();
    Err(RunError::NoSuchCheckpoint { folder: folder.to_owned(), step, known })
}

/// The steps and folders of checkpoints, the newest first.
type Listed = Vec<(u64, PathBuf)>;

fn listed(folder: &Path) -> RunResult<Listed> {
    if folder.is_dir() { list::newest_first(folder) } else { Ok(Vec::new()) }
}

fn complete(checkpoints: &Listed, job_id: &str, step: Option<u64>) -> Option<(u64, PathBuf)> {
    let wanted = |found: u64| step.is_none_or(|step| step == found);
    let is_whole = |path: &Path| {
        Manifest::read(path).is_ok_and(|it| it.job_id == job_id && it.check(path).is_ok())
    };
    checkpoints.iter().find(|(found, path)| wanted(*found) && is_whole(path)).cloned()
}

fn is_of_job(path: &Path, job_id: &str) -> bool {
    Manifest::read(path).is_ok_and(|manifest| manifest.job_id == job_id)
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
        Manifest::write(&path, job_id, step, &[]).unwrap();
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

    #[test]
    fn a_checkpoint_that_replaces_the_listed_one_is_found() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a", 20);
        // The job removed the first one after it was listed.
        let mut steps = [10, 20].into_iter();
        let list = || {
            let step = steps.next().unwrap();
            Ok(vec![(step, checkpoint_folder(folder.path(), step))])
        };
        assert_eq!(newest_of(list, folder.path(), "a", None).unwrap().0, 20);
    }

    #[test]
    fn a_job_that_replaces_all_that_is_listed_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let mut step = 0;
        let list = || {
            step += 10;
            Ok(vec![(step, checkpoint_folder(folder.path(), step))])
        };
        assert!(newest_of(list, folder.path(), "a", None).is_err());
        assert_eq!(step, 10 * READINGS_MAX as u64);
    }
}
