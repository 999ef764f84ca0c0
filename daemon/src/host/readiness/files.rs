//! The files of the host, below a folder that tests may choose.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Folders that the loader of shared libraries searches on the distributions that vendors support.
const LIBRARY_FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
];

#[derive(Clone, Debug)]
pub(crate) struct HostFiles {
    root: PathBuf,
    /// Whether files that are not below the root are those of this host.
    is_overlay: bool,
}

impl HostFiles {
    pub(crate) fn new(root: impl Into<PathBuf>) -> HostFiles {
        HostFiles { root: root.into(), is_overlay: false }
    }

    /// This host's files, except for those below `root`, which hide them.
    pub(crate) fn overlaid(root: impl Into<PathBuf>) -> HostFiles {
        HostFiles { is_overlay: true, ..HostFiles::new(root) }
    }

    pub(super) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        let below = self.root.join(path.strip_prefix("/").unwrap_or(path));
        if self.is_overlay && !below.exists() { path.to_owned() } else { below }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// The text of a small file, without white space at its ends.
    pub(super) fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// Whether this user may read and write the file.
    pub(super) fn is_usable(&self, path: impl AsRef<Path>) -> bool {
        access(self.path(path), Access::READ_OK | Access::WRITE_OK).is_ok()
    }

    /// The sorted names in a folder that have `prefix` and then a number.
    pub(super) fn numbered(&self, folder: &str, prefix: &str) -> Vec<String> {
        let mut names = self.names(folder);
        names.retain(|name| {
            let number = name.strip_prefix(prefix);
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        });
        names.sort_by_key(|name| (name.len(), name.clone()));
        names
    }

    /// The names in a folder; none if it does not exist.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// The path of a shared library in `folders`, in `LD_LIBRARY_PATH` or where distributions keep
    /// theirs.
    pub(super) fn library(&self, name: &str, folders: &[&str]) -> Option<PathBuf> {
        let own = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let own: Vec<PathBuf> = env::split_paths(&own).collect();
        let known = folders.iter().chain(&LIBRARY_FOLDERS).map(PathBuf::from);
        own.into_iter().chain(known).map(|folder| folder.join(name)).find(|path| self.exists(path))
    }

    /// The path of a program in `folders` or on `PATH`.
    pub(super) fn program(&self, name: impl AsRef<OsStr>, folders: &[&str]) -> Option<PathBuf> {
        let name = Path::new(name.as_ref());
        let on_path = env::var_os("PATH").unwrap_or_default();
        let on_path: Vec<PathBuf> = env::split_paths(&on_path).collect();
        let folders = folders.iter().map(PathBuf::from).chain(on_path);
        folders.map(|folder| folder.join(name)).find(|path| self.exists(path))
    }
}
