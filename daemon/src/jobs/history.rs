//! The files of jobs that have ended: their sizes, and their removal.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use traind_folders::{NOTES, step_of_checkpoint};

use super::deep_folder;
use super::run_dir::RunDir;

/// The contents of a job's folders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub bytes: u64,
    /// Whether there is a checkpoint or an output folder among them.
    pub has_output: bool,
}

/// Measures the folders of a job. Follows no links, and does not look into folders whose path is too long for it.
pub(crate) fn contents(run_dir: &RunDir) -> io::Result<Contents> {
    let mut found = Contents::default();
    for folder in run_dir.folders() {
        measure(folder, &mut found)?;
    }
    Ok(found)
}

fn measure(folder: &Path, found: &mut Contents) -> io::Result<()> {
    let mut folders = match fs::symlink_metadata(folder) {
        Ok(metadata) if metadata.is_dir() => vec![folder.to_owned()],
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        // The link to an adopted run, whose folder is its user's.
        _ => Vec::new(),
    };
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::InvalidFilename => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let metadata = entry.metadata()?;
            found.bytes += metadata.len();
            if metadata.is_dir() {
                let path = entry.path();
                found.has_output |=
                    entry.file_name() == NOTES || step_of_checkpoint(&path).is_some();
                folders.push(path);
            }
        }
    }
    Ok(())
}

/// Removes the folders of a job. Follows no links; that to an adopted run is removed itself.
pub(crate) fn remove(run_dir: &RunDir) -> io::Result<()> {
    for folder in run_dir.folders() {
        let removed = match fs::symlink_metadata(folder) {
            Ok(metadata) if metadata.is_dir() => deep_folder::remove(folder),
            Ok(_) => fs::remove_file(folder),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::deep_folder::tests::nest;

    #[test]
    fn folders_of_any_depth_are_measured_and_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(scratch.path(), "a");
        run_dir.create(None).unwrap();
        fs::write(run_dir.path().join("runner.log"), "12345").unwrap();
        nest(run_dir.path(), 3_000);
        let found = contents(&run_dir).unwrap();
        assert!(!found.has_output && found.bytes >= 5, "{found:?}");
        remove(&run_dir).unwrap();
        assert!(!run_dir.path().exists());
    }

    #[test]
    fn folders_are_removed_and_what_links_lead_to_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let kept = scratch.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("data"), "1234").unwrap();
        let run_dir = RunDir::new(&scratch.path().join("state"), "a");
        run_dir.create(None).unwrap();
        fs::write(run_dir.path().join("runner.log"), "12345").unwrap();
        std::os::unix::fs::symlink(&kept, run_dir.path().join("link")).unwrap();
        let found = contents(&run_dir).unwrap();
        assert!(!found.has_output && found.bytes >= 5, "{found:?}");
        fs::create_dir_all(run_dir.path().join("out/checkpoint-7")).unwrap();
        assert!(contents(&run_dir).unwrap().has_output);
        remove(&run_dir).unwrap();
        remove(&run_dir).unwrap();
        assert!(!run_dir.path().exists() && !run_dir.record().parent().unwrap().exists());
        let adopted = RunDir::new(&scratch.path().join("state"), "b");
        adopted.link(&kept, rustix::process::getuid().as_raw()).unwrap();
        assert_eq!(contents(&adopted).unwrap(), Contents::default());
        remove(&adopted).unwrap();
        assert!(adopted.linked().is_none() && kept.join("data").exists());
    }
}
