//! The durable log of a run's events: a runner appends, the daemon reads the
//! same file while it grows and after crashes of either.
//!
//! A log is a row of frames (see `frame`). Bytes that a crash leaves behind
//! the last whole frame are a torn tail: readers wait in front of it, the next
//! writer cuts it off. A damaged frame in front of intact ones is never repaired or
//! skipped: it is reported.

mod frame;
mod reader;
mod syncer;
mod writer;

use std::io;
use std::path::{Path, PathBuf};

pub use frame::FRAME_BYTES_MAX;
pub use reader::{EventLogReader, LoggedEvent};
pub use writer::EventLogWriter;

/// Why an event log cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum EventLogError {
    /// A system call failed.
    #[error("{action} event log {}", path.display())]
    Io {
        /// The failed operation, as a bare verb: "append to".
        action: &'static str,
        /// The log.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A frame does not match its checksum or holds no event.
    #[error("event log {} is corrupt at byte {offset}: {detail}", path.display())]
    Corrupt {
        /// The log.
        path: PathBuf,
        /// The offset of the frame.
        offset: u64,
        /// The fault.
        detail: &'static str,
    },
    /// Another process or handle writes this log.
    #[error("event log {} has another writer", path.display())]
    Locked {
        /// The log.
        path: PathBuf,
    },
    /// The event does not fit a frame.
    #[error("event of {bytes} bytes is over the limit of {FRAME_BYTES_MAX} bytes")]
    TooLarge {
        /// Its encoded size.
        bytes: usize,
    },
}

impl EventLogError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}
