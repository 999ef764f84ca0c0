//! What a reader of files has to do with their being elsewhere: whom to tell how far a download
//! is, and what to keep while it is in use.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::keep::Held;

/// Who is told of downloads, and may end them.
pub trait Watcher: Debug + Send + Sync {
    /// So many bytes of `bytes_total` of `name` are there.
    fn fetched(&self, name: &str, bytes: u64, bytes_total: u64);

    /// Whether what is being fetched is still wanted.
    fn is_wanted(&self) -> bool;
}

/// Handles that all files of a run share.
#[derive(Clone, Debug, Default)]
pub struct Remote {
    pub watcher: Option<Arc<dyn Watcher>>,
    pub held: Held,
    /// What people call files that were fetched before, by where they are now.
    pub names: BTreeMap<PathBuf, PathBuf>,
}

impl Remote {
    pub(crate) fn fetched(&self, name: &str, bytes: u64, bytes_total: u64) {
        if let Some(watcher) = &self.watcher {
            watcher.fetched(name, bytes, bytes_total);
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.watcher.as_ref().is_none_or(|watcher| watcher.is_wanted())
    }

    pub(crate) fn name_of(&self, local: &Path) -> PathBuf {
        self.names.get(local).map_or_else(|| local.to_owned(), PathBuf::clone)
    }
}
