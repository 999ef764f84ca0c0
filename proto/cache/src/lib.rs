//! The cache folder that all jobs of a host share: locks on the entries in use, eviction of the
//! others, free disk space, and progress of downloads into it.
//!
//! An entry is a folder that its users lock, or a file that is read at once and not needed after.
//! Eviction never removes a locked folder. Depends on no other package of the workspace.

mod disk_space;
mod error;
mod evict;
mod lock;
mod observer;

pub use disk_space::require_space;
pub use error::{Error, Result};
pub use evict::{CacheFolders, evict};
pub use lock::EntryLocks;
pub use observer::DownloadObserver;
