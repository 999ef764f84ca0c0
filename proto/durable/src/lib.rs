//! Atomic, durable file writes: a file is written aside, synced and renamed, and the folder is
//! synced, without which the name may be lost. Readers and crashes find it whole or not at all.
//! Files that others may have put in place are read without trust ([`read_regular`]).
//!
//! Depends on nothing, so that every package can.

mod regular;

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub use regular::{open_regular, read_description, read_regular};

/// The suffix of a file that is not complete yet.
const ASIDE: &str = ".part";

/// Replaces the content of `path`. Durable when this returns.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    Replacement::of(path).write(|file| file.write_all(content))
}

/// Makes the names in a folder durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A file that will replace another, or be created.
#[derive(Clone, Debug)]
pub struct Replacement<'a> {
    path: &'a Path,
    by_many: bool,
    mode: Option<u32>,
    leaves_folder: bool,
}

impl<'a> Replacement<'a> {
    pub fn of(path: &'a Path) -> Self {
        Self { path, by_many: false, mode: None, leaves_folder: false }
    }

    /// Allows several processes to write the file at once; the last one wins. The remains of a
    /// killed one keep a name of their own.
    pub fn by_many(self) -> Self {
        Self { by_many: true, ..self }
    }

    /// Sets the file's permissions, regardless of the process's umask.
    pub fn with_mode(self, mode: u32) -> Self {
        Self { mode: Some(mode), ..self }
    }

    /// Leaves the name to [`sync_folder`], for writers of several files in one folder.
    pub fn without_folder(self) -> Self {
        Self { leaves_folder: true, ..self }
    }

    /// Writes the content. A failure leaves nothing of it behind.
    pub fn write(
        self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<()> {
        let aside = self.aside();
        let written = self.write_aside(&aside, write).and_then(|()| fs::rename(&aside, self.path));
        if let Err(error) = written {
            // A disk that is full has use for the room.
            let _ = fs::remove_file(&aside);
            return Err(error);
        }
        match self.path.parent() {
            Some(folder) if !self.leaves_folder => sync_folder(or_here(folder)),
            _ => Ok(()),
        }
    }

    fn aside(&self) -> PathBuf {
        let mut name = OsString::from(self.path);
        if self.by_many {
            name.push(format!(".{}", std::process::id()));
        }
        name.push(ASIDE);
        name.into()
    }

    /// A new file in any case: the folder may be another user's, who could have put a link there.
    fn write_aside(
        &self,
        aside: &Path,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<()> {
        match fs::remove_file(aside) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = File::create_new(aside)?;
        if let Some(mode) = self.mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

/// Linux's number of an input or output error, for which `ErrorKind` has no stable variant.
const EIO: i32 = 5;

/// Whether `error` is a failure of the file system that may pass or that an operator can repair:
/// it is full, over quota, read-only, stale, or fails to read or write.
pub fn is_disk_failure(error: &io::Error) -> bool {
    let known = matches!(
        error.kind(),
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::StaleNetworkFileHandle
    );
    known || error.raw_os_error() == Some(EIO)
}

/// The folder of a bare file name.
fn or_here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_new_content_takes_the_place_of_the_old() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(folder.path().join("a.json.part"), "of a writer that died").unwrap();
        for content in ["first and long", "second"] {
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        Replacement::of(&path).by_many().with_mode(0o600).write(|_| Ok(())).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn what_fails_leaves_the_old_content_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        replace(&path, b"old").unwrap();
        let failed = Replacement::of(&path).write(|file| {
            file.write_all(b"half")?;
            Err(io::Error::from(ErrorKind::StorageFull))
        });
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn disk_failures_are_distinguished_from_other_errors() {
        for errno in [5, 28, 30, 116, 122] {
            assert!(is_disk_failure(&io::Error::from_raw_os_error(errno)), "errno {errno}");
        }
        for errno in [2, 13, 20] {
            assert!(!is_disk_failure(&io::Error::from_raw_os_error(errno)), "errno {errno}");
        }
        assert!(!is_disk_failure(&io::Error::other("not from a system call")));
    }

    #[test]
    fn a_link_that_somebody_put_aside_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("other"));
        fs::write(&other, "untouched").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join("a.part")).unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "untouched");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }
}
