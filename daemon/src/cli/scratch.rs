//! Folders that a command makes, and removes unless it completes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

use super::runner_command::Interrupted;

/// A folder for a command's results. Unless it is kept, it and its files are removed where the command created them.
pub(super) struct NewFolder {
    path: PathBuf,
    /// The folders that were created, the innermost first.
    created: Vec<PathBuf>,
    /// Whether all files in the folder are the command's.
    is_own: bool,
}

/// A hidden folder beside a command's results, which is removed with the files in it. It has its name once it is
/// locked, so that the next command removes that of one that was killed.
pub(super) struct Scratch {
    path: PathBuf,
    _lock: Option<File>,
}

/// Begins the name of a folder that is not locked yet.
const NEW: &str = ".traind-new-";
/// The age from which such a folder is no longer one that a command is about to lock.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

impl NewFolder {
    /// Creates a folder with the folders above it, if it does not exist.
    pub(super) fn create(path: &Path) -> anyhow::Result<NewFolder> {
        let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let created: Vec<_> = path.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        fs::create_dir_all(path).with_context(|| format!("create {}", path.display()))?;
        let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        Ok(NewFolder { path: path.to_owned(), created, is_own: is_empty })
    }

    /// Leaves the folder with its files.
    pub(super) fn keep(mut self) {
        self.created.clear();
        self.is_own = false;
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        for path in entries.filter(|_| self.is_own).map(|entry| entry.path()) {
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
        for folder in &self.created {
            let _ = fs::remove_dir(folder);
        }
    }
}

impl Scratch {
    /// Creates a folder in `parent` for `command`.
    pub(super) fn create(parent: &Path, command: &str) -> anyhow::Result<Scratch> {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        ensure!(parent.is_dir(), "there is no folder {}", parent.display());
        let absolute = std::path::absolute(parent).context("resolve the folder")?;
        match Scratch::create_locked(&absolute, command) {
            Ok(scratch) => {
                remove_abandoned(&absolute, command, scratch.path());
                Ok(scratch)
            }
            // The error itself names a folder that nobody knows.
            Err(error) => bail!("write in {}: {}", parent.display(), io::Error::from(error.kind())),
        }
    }

    /// Locks a folder and gives it the name of the command's.
    fn create_locked(parent: &Path, command: &str) -> io::Result<Scratch> {
        let new = tempfile::Builder::new().prefix(NEW).tempdir_in(parent)?;
        let lock = locked(new.path());
        let name = new.path().file_name().unwrap_or_default().to_string_lossy();
        let own = name.trim_start_matches(NEW);
        let path = parent.join(format!("{}{own}", prefix(command)));
        fs::rename(new.path(), &path)?;
        // It has another name now.
        let _ = new.keep();
        Ok(Scratch { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the files in the folder.
    pub(super) fn clear(&self) -> anyhow::Result<()> {
        let clear = || {
            for entry in fs::read_dir(&self.path)? {
                let path = entry?.path();
                if path.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
            }
            io::Result::Ok(())
        };
        clear().with_context(|| format!("clear {}", self.path.display()))
    }

    /// An error that names `output` in place of files in this folder, in the words of the command's options.
    pub(super) fn about(
        &self,
        error: anyhow::Error,
        output: &Path,
        words: impl Fn(&str) -> String,
    ) -> anyhow::Error {
        if error.is::<Interrupted>() {
            return error;
        }
        let (message, own) = (format!("{error:#}"), self.path().display().to_string());
        let mut parts = message.split(own.as_str());
        let mut shown = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let rest =
                part.trim_start_matches(|it: char| !it.is_whitespace() && !"\":,;".contains(it));
            shown.push_str(&output.display().to_string());
            shown.push_str(rest);
        }
        anyhow::Error::msg(words(&shown))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Begins the names of the folders of a command.
fn prefix(command: &str) -> String {
    format!(".traind-{command}-")
}

/// A folder, locked until it is dropped; `None` if another process holds its lock, or its file system has none.
fn locked(folder: &Path) -> Option<File> {
    let opened = File::open(folder).ok()?;
    flock(&opened, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(opened)
}

/// Removes this user's folders in `parent` whose commands were killed: those that no process has locked, and of those
/// that were not locked yet, which are empty, the ones that were old when `own` was created.
fn remove_abandoned(parent: &Path, command: &str, own: &Path) {
    let Ok(now) = own.metadata().and_then(|found| found.modified()) else { return };
    let prefix = prefix(command);
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let begins = |prefix: &str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
        // The entry's own: no link is followed.
        let Ok(found) = entry.metadata() else { continue };
        let is_own = found.is_dir() && found.uid() == geteuid().as_raw();
        let age = || found.modified().ok().and_then(|time| now.duration_since(time).ok());
        let is_old_and_new = begins(NEW) && age().is_some_and(|age| age > ABANDONED_AFTER);
        if is_own && (begins(&prefix) || is_old_and_new) && locked(&entry.path()).is_some() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_kept_goes_with_those_above_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c");
        let check = |keeps: bool, before: &str, after: &str| {
            fs::create_dir_all(folder.path().join(before)).unwrap();
            let new = NewFolder::create(&path).unwrap();
            fs::write(path.join("file"), "").unwrap();
            if keeps {
                new.keep();
            } else {
                drop(new);
            }
            let last = path.ancestors().find(|it| it.exists()).unwrap();
            assert_eq!(last, folder.path().join(after));
        };
        check(false, "", "");
        check(false, "a", "a");
        check(true, "a", "a/b/c");
        check(false, "a/b/c", "a/b/c");
        assert!(path.join("file").exists(), "the folder was not empty before");
        fs::remove_file(path.join("file")).unwrap();
        check(false, "a/b/c", "a/b/c");
        assert!(!path.join("file").exists());
    }

    /// A folder that a killed command left is removed at once. Another command's folder, or a new one, which may not be
    /// locked yet, stays.
    #[test]
    fn folders_of_commands_that_were_killed_are_removed_by_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().metadata().unwrap().modified().unwrap() - 2 * ABANDONED_AFTER;
        let age = |path: &Path| File::open(path).unwrap().set_modified(old).unwrap();
        let left = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("job.json"), "").unwrap();
            path
        };
        let names = [".traind-mine-a", ".traind-new-a", ".traind-new-b", ".traind-embed-a", "own"];
        let [killed, unlocked, new, embed, other] = names.map(left);
        let running = Scratch::create(folder.path(), "other").unwrap();
        [unlocked.as_path(), &other, running.path()].into_iter().for_each(age);
        let next = Scratch::create(folder.path(), "mine").unwrap();
        let after = Scratch::create(folder.path(), "mine").unwrap();
        assert!(!killed.exists() && !unlocked.exists());
        for kept in [new.as_path(), &embed, &other, running.path(), next.path(), after.path()] {
            assert!(kept.exists(), "{}", kept.display());
        }
    }

    #[test]
    fn errors_name_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(folder.path(), "mine").unwrap();
        let path = scratch.path().to_owned();
        let error =
            anyhow::anyhow!("disk full").context(format!("write {}/a.json", path.display()));
        let shown = scratch.about(error, Path::new("out.jsonl"), str::to_uppercase).to_string();
        assert_eq!(shown, "WRITE OUT.JSONL: DISK FULL");
        drop(scratch);
        assert!(!path.exists());
        let missing = folder.path().join("none");
        let error = Scratch::create(&missing, "mine").err().unwrap().to_string();
        assert_eq!(error, format!("there is no folder {}", missing.display()));
    }
}
