//! The package's error type, which names the path and the operation.

use std::io;
use std::path::{Path, PathBuf};

/// The result of every fallible function of this package.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: cannot {operation}: {source}", .path.display())]
    Io { path: PathBuf, operation: &'static str, source: io::Error },
    #[error(
        "{}: the disk has {available} bytes left, too few for {purpose}; make room or move the \
         cache folder",
        .path.display()
    )]
    DiskFull { path: PathBuf, purpose: &'static str, available: u64 },
}

impl Error {
    /// An I/O failure of `operation` (a bare verb phrase) on `path`.
    pub(crate) fn io(
        path: &Path,
        operation: &'static str,
    ) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Self::Io { path, operation, source }
    }

    /// The path that the operation failed on.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. } | Self::DiskFull { path, .. } => path,
        }
    }
}
