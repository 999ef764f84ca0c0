//! Removal of a folder however deep it is. Its user may have made thousands of folders within each other, for which
//! neither the stack of a recursion nor the files that a process may open suffice.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

/// The beginning of the names that moved folders get.
const MOVED: &str = ".removing-";
/// How often a folder is emptied again that is filled meanwhile.
const TRIES: usize = 3;

/// Removes a folder with all that it contains. Follows no links. Folders within it are moved to its top, where they are
/// emptied one after the other.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    let opened = open(CWD, folder)?;
    let mut removal = Removal { top: opened.as_fd(), waiting: Vec::new(), next: 0 };
    removal.empty(removal.top, true)?;
    while let Some(name) = removal.waiting.pop() {
        removal.remove(&name)?;
    }
    fs::remove_dir(folder)
}

/// The removal of a folder.
struct Removal<'a> {
    top: BorrowedFd<'a>,
    /// Folders at the top.
    waiting: Vec<CString>,
    /// The number of the next one.
    next: u64,
}

impl Removal<'_> {
    /// Removes a folder at the top.
    fn remove(&mut self, name: &CStr) -> io::Result<()> {
        for _ in 0..TRIES {
            match open(self.top, name) {
                Ok(folder) => self.empty(folder.as_fd(), false)?,
                // An empty folder that another one has replaced.
                Err(Errno::NOENT) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            match unlinkat(self.top, name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                removed => return Ok(removed?),
            }
        }
        Err(Errno::NOTEMPTY.into())
    }

    /// Removes the files of a folder, and moves its folders to the top.
    fn empty(&mut self, folder: BorrowedFd<'_>, is_top: bool) -> io::Result<()> {
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            match unlinkat(folder, name, AtFlags::empty()) {
                // POSIX has the other one.
                Err(Errno::ISDIR | Errno::PERM) if is_top => self.waiting.push(name.to_owned()),
                Err(Errno::ISDIR | Errno::PERM) => self.raise(folder, name)?,
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Moves a folder to the top.
    fn raise(&mut self, folder: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        loop {
            let moved = CString::new(format!("{MOVED}{}", self.next))?;
            self.next += 1;
            match renameat(folder, name, self.top, &*moved) {
                // The user has a file or folder of this name.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                Err(Errno::NOENT) => return Ok(()),
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    self.waiting.push(moved);
                    return Ok(());
                }
            }
        }
    }
}

fn open<P: rustix::path::Arg>(parent: impl AsFd, name: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::mkdirat;

    use super::*;

    /// Makes so many folders within each other, and a file in the last.
    pub(in crate::jobs) fn nest(folder: &Path, depth: usize) {
        let mut deepest = open(CWD, folder).unwrap();
        for _ in 0..depth {
            mkdirat(&deepest, c"deep", Mode::RWXU).unwrap();
            deepest = open(&deepest, c"deep").unwrap();
        }
        let flags = OFlags::CREATE | OFlags::WRONLY;
        openat(&deepest, c"file", flags, Mode::RUSR).unwrap();
    }

    #[test]
    fn a_folder_of_any_depth_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("run");
        for name in ["a", "b/c", ".removing-0", ".removing-1/full"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        fs::write(folder.join(".removing-2"), "a file").unwrap();
        nest(&folder.join("a"), 5_000);
        nest(&folder.join("b"), 3);
        // A recursion would not have the stack for it.
        let small = std::thread::Builder::new().stack_size(128 << 10);
        small.spawn(move || remove(&folder).unwrap()).unwrap().join().unwrap();
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let (folder, kept) = (scratch.path().join("run"), scratch.path().join("kept"));
        fs::create_dir_all(folder.join("below")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("data"), "1").unwrap();
        symlink(&kept, folder.join("link")).unwrap();
        symlink(&kept, folder.join("below/link")).unwrap();
        remove(&folder).unwrap();
        assert!(!folder.exists() && kept.join("data").exists());
        symlink(&kept, &folder).unwrap();
        remove(&folder).unwrap_err();
        assert!(kept.join("data").exists());
    }
}
