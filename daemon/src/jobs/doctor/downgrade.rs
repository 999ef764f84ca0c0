//! Takes the store back to an earlier version. That of this version is kept beside it.

use std::path::{Path, PathBuf};

use super::files::{behind_links, keep_link, remove_store, rename, sync};
use super::{DoctorError, StoppedState};
use crate::jobs::history;
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::{self, Downgraded, Store, StoreError, is_blank, store_version};

/// The result of a downgrade.
#[derive(Debug)]
pub(crate) enum Downgrade {
    Done {
        downgraded: Downgraded,
        /// The new path of the store of this version.
        kept: PathBuf,
    },
    /// The store has this version already, and was not changed.
    NotNeeded { version: usize },
}

/// Takes the store back to `version`, by default the previous one. At any moment the folder has a store, the present
/// or the earlier one.
pub(crate) fn downgrade(
    state: &StoppedState,
    version: Option<usize>,
) -> Result<Downgrade, DoctorError> {
    if is_blank(&state.store_path()) {
        return Err(StoreError::Missing { path: state.store_path() }.into());
    }
    let path = behind_links(&state.store_path())?;
    let found = store::version_of(&path)?;
    if version.map_or(found < store_version(), |wanted| wanted == found) {
        return Ok(Downgrade::NotNeeded { version: found });
    }
    if let Some(wanted) = version.filter(|wanted| *wanted > found) {
        return Err(StoreError::NotEarlier { found, wanted }.into());
    }
    finish_removals(state)?;
    let draft = path.with_extension("db.downgraded");
    remove_store(&draft)?;
    let downgraded = make(&path, &draft, version).inspect_err(|_| {
        // The disk may be full.
        let _ = remove_store(&draft);
    })?;
    let kept = keep_link(&path, &format!("version-{}", store_version()))?;
    rename(&draft, &path)?;
    Ok(Downgrade::Done { downgraded, kept })
}

/// Writes the earlier store. That of this version becomes one file.
fn make(path: &Path, draft: &Path, version: Option<usize>) -> Result<Downgraded, DoctorError> {
    let downgraded = store::downgrade(path, draft, version)?;
    sync(draft)?;
    store::end_log(path)?;
    Ok(downgraded)
}

/// Removes the folders of removed jobs. An earlier version might not know that they are to be removed, and would
/// take them for jobs that the store has lost.
fn finish_removals(state: &StoppedState) -> Result<(), DoctorError> {
    let store = Store::open(&state.store_path())?;
    let removed = store.removals()?;
    for id in &removed {
        let run_dir = RunDir::new(&state.state_dir, id);
        history::remove(&run_dir).map_err(|source| DoctorError::Io {
            action: "remove",
            path: run_dir.path().to_owned(),
            source,
        })?;
    }
    store.removal_done(&removed)?;
    Ok(store.checkpoint()?)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};

    use super::*;
    use crate::jobs::store::NewJob;

    /// A state folder with a job.
    fn state_folder(folder: &Path) {
        let store = Store::open(&folder.join("traind.db")).unwrap();
        store.create(&NewJob { id: "a".into(), ..NewJob::default() }).unwrap();
    }

    fn run(folder: &Path, version: Option<usize>) -> Result<Downgrade, DoctorError> {
        downgrade(&StoppedState::lock(folder)?, version)
    }

    fn kept(done: Downgrade) -> PathBuf {
        match done {
            Downgrade::Done { kept, .. } => kept,
            Downgrade::NotNeeded { version } => panic!("it has version {version}"),
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Run twice, it goes back once, and keeps the store that has everything.
    #[test]
    fn a_store_that_was_taken_back_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        state_folder(folder.path());
        let path = folder.path().join("traind.db");
        let kept = kept(run(folder.path(), None).unwrap());
        let (before, list) = (fs::read(&path).unwrap(), names(folder.path()));
        let again = run(folder.path(), None).unwrap();
        let wanted = store_version() - 1;
        assert!(
            matches!(again, Downgrade::NotNeeded { version } if version == wanted),
            "{again:?}"
        );
        let error = run(folder.path(), Some(store_version())).unwrap_err().to_string();
        assert!(error.contains("cannot go back"), "{error}");
        assert_eq!(StoppedState::lock(folder.path()).unwrap().check().unwrap(), [""; 0]);
        assert_eq!((fs::read(&path).unwrap(), names(folder.path())), (before, list));
        assert_eq!(store::version_of(&kept).unwrap(), store_version());
        assert_eq!(Store::open(&kept).unwrap().ids().unwrap().len(), 1);
        run(folder.path(), Some(wanted - 1)).unwrap();
        assert_eq!(store::version_of(&path).unwrap(), wanted - 1);
    }

    /// After a kill at any moment, the next run finds a store and ends what was begun.
    #[test]
    fn a_downgrade_that_was_killed_is_done_again() {
        let folder = tempfile::tempdir().unwrap();
        state_folder(folder.path());
        let path = folder.path().join("traind.db");
        // Killed while the draft was written, and again before it took the store's place.
        for name in ["downgraded", "downgraded-journal", "downgraded-wal", "probe", "checked"] {
            fs::write(folder.path().join(format!("traind.db.{name}")), "half").unwrap();
        }
        store::end_log(&path).unwrap();
        let first = keep_link(&path, &format!("version-{}", store_version())).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().nlink(), 2, "both names have the store");
        assert_eq!(StoppedState::lock(folder.path()).unwrap().check().unwrap(), [""; 0]);
        let second = kept(run(folder.path(), None).unwrap());
        assert_ne!(first, second, "no kept store is replaced");
        assert_eq!(store::version_of(&second).unwrap(), store_version());
        assert_eq!(store::version_of(&path).unwrap(), store_version() - 1);
        let left: Vec<String> = names(folder.path());
        let half = |name: &String| ["downgraded", "probe"].iter().any(|it| name.contains(it));
        assert!(!left.iter().any(half), "{left:?}");
    }

    /// A draft is removed that could not be finished on a full disk, which it would keep full.
    #[test]
    fn a_downgrade_that_fails_changes_nothing_and_leaves_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        state_folder(folder.path());
        let path = folder.path().join("traind.db");
        let store = rusqlite::Connection::open(&path).unwrap();
        let twice = "DROP TABLE splits; CREATE TABLE splits (job, split, prepared);
            INSERT INTO splits VALUES (1, 'a', x'00'), (1, 'a', x'00')";
        store.execute_batch(twice).unwrap();
        drop(store);
        run(folder.path(), None).unwrap_err();
        assert_eq!(names(folder.path()), ["daemon.lock", "traind.db"]);
        assert_eq!(store::version_of(&path).unwrap(), store_version());
    }

    #[test]
    fn links_are_replaced_or_lead_to_the_store_and_nothing_is_written_through_them() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        state_folder(elsewhere.path());
        let path = folder.path().join("traind.db");
        symlink(elsewhere.path().join("traind.db"), &path).unwrap();
        for name in ["traind.db.downgraded", "traind.db.checked", "traind.db.probe"] {
            symlink(elsewhere.path().join("made"), folder.path().join(name)).unwrap();
            symlink(elsewhere.path().join("made"), elsewhere.path().join(name)).unwrap();
        }
        let kept = kept(run(folder.path(), None).unwrap());
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink(), "the store stays on its disk");
        assert_eq!(store::version_of(&path).unwrap(), store_version() - 1);
        assert_eq!(kept.parent(), Some(fs::canonicalize(elsewhere.path()).unwrap().as_path()));
        assert!(!elsewhere.path().join("made").exists());
        let lock = folder.path().join("daemon.lock");
        fs::remove_file(&lock).unwrap();
        fs::write(elsewhere.path().join("text"), "text").unwrap();
        symlink(elsewhere.path().join("text"), &lock).unwrap();
        assert!(matches!(StoppedState::lock(folder.path()), Err(DoctorError::Lock(_))));
        assert_eq!(fs::read_to_string(elsewhere.path().join("text")).unwrap(), "text");
    }

    /// Root would leave the daemon's account a store that it cannot open.
    #[test]
    fn the_store_of_another_account_is_left_to_it() {
        let folder = tempfile::tempdir().unwrap();
        state_folder(folder.path());
        // Only root can give a file to another account.
        if lchown(folder.path().join("traind.db"), Some(12_345), None).is_err() {
            return;
        }
        let error = run(folder.path(), None).unwrap_err().to_string();
        assert!(error.contains("sudo -u '#12345'"), "{error}");
        assert_eq!(names(folder.path()), ["traind.db"]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_is_named() {
        let folder = tempfile::tempdir().unwrap();
        state_folder(folder.path());
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
        // Root may write to it.
        if fs::write(folder.path().join("probe"), "").is_err() {
            let error = run(folder.path(), None).unwrap_err().to_string();
            assert!(error.contains("daemon.lock"), "{error}");
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(store::version_of(&folder.path().join("traind.db")).unwrap(), store_version());
    }

    /// SQLite would make a new store for a path with other characters in their place.
    #[test]
    fn a_folder_whose_name_is_no_text_has_its_jobs_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join(OsStr::from_bytes(b"state-\xff"));
        fs::create_dir(&state).unwrap();
        state_folder(&state);
        run(&state, None).unwrap();
        assert_eq!(Store::open(&state.join("traind.db")).unwrap().ids().unwrap().len(), 1);
    }
}
