//! The state that all fetched files of a run share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use traind_cache::{DownloadObserver, EntryLocks};

/// How files are fetched into the cache.
#[derive(Clone, Debug, Default)]
pub struct FetchContext {
    /// Receives progress and may cancel; None for neither.
    pub observer: Option<Arc<dyn DownloadObserver>>,
    /// Protects the entries that the run uses from eviction.
    pub locks: EntryLocks,
    /// The original names, for messages, of files that were fetched before, by local path.
    pub names: BTreeMap<PathBuf, PathBuf>,
}

impl FetchContext {
    #[cfg(feature = "s3")]
    pub(crate) fn progressed(&self, name: &str, bytes: u64, bytes_total: u64) {
        if let Some(observer) = &self.observer {
            observer.progressed(name, bytes, bytes_total);
        }
    }

    #[cfg(feature = "s3")]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.observer.as_ref().is_some_and(|observer| observer.is_cancelled())
    }

    /// The name by which users know a local file.
    pub(crate) fn original_name(&self, local: &Path) -> PathBuf {
        self.names.get(local).map_or_else(|| local.to_owned(), PathBuf::clone)
    }
}
