//! Progress of downloads into the cache.

use std::fmt::Debug;

/// Receives the progress of downloads and may cancel them.
pub trait DownloadObserver: Debug + Send + Sync {
    /// Reports that `bytes` of the `bytes_total` bytes of `name` have arrived.
    fn progressed(&self, name: &str, bytes: u64, bytes_total: u64);

    /// Returns true if downloads should stop.
    fn is_cancelled(&self) -> bool;
}
