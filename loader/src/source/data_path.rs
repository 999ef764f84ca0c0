//! A file of rows by the name that users know, and by the one on this host.

use std::path::PathBuf;

use crate::error::Error;

/// The scheme of an object's URL.
pub(super) const SCHEME: &str = "s3://";

/// A data file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DataPath {
    /// The name that users know it by: its URL, if it has one.
    pub(super) name: PathBuf,
    /// The file that holds its bytes.
    pub(super) local: PathBuf,
}

impl DataPath {
    /// Replaces the local path in an error by the name that users know.
    pub(super) fn renamed(&self, error: Error) -> Error {
        match error.file() == Some(self.local.as_path()) {
            true => error.renamed(&self.name),
            false => error,
        }
    }
}
