//! Reads a log that may be growing. A reader keeps no state but its file: the
//! caller remembers how far it got, and that survives the caller's restart.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::EventLogError;
use super::frame::{self, Decoded, FRAME_BYTES_MAX, HEADER_BYTES};
use crate::v1::Event;

/// Bytes read at once; always room for the largest frame.
const CHUNK_BYTES: usize = 4 * (FRAME_BYTES_MAX + HEADER_BYTES);

/// An event and where the one after it begins.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedEvent {
    /// The event.
    pub event: Event,
    /// The offset to continue from once this event is handled.
    pub next_offset: u64,
}

/// Reads an event log.
#[derive(Debug)]
pub struct EventLogReader {
    file: File,
    path: PathBuf,
}

impl EventLogReader {
    /// Opens a log that exists.
    pub fn open(path: &Path) -> Result<Self, EventLogError> {
        let file = File::open(path).map_err(EventLogError::io("open", path))?;
        Ok(Self::of_file(file, path))
    }

    /// Reads a log that was opened before; `path` is for the messages of errors.
    pub fn of_file(file: File, path: &Path) -> Self {
        Self { file, path: path.to_owned() }
    }

    /// Returns the events from `offset` on, as many as are written and fit into
    /// a chunk of a few MiB; none means that the end is reached for now.
    ///
    /// `offset` is 0 or a `next_offset`. A corrupt frame is an error once it is
    /// the first to read: events in front of it are returned before.
    pub fn read_from(&self, offset: u64) -> Result<Vec<LoggedEvent>, EventLogError> {
        let chunk = self.read_chunk(offset).map_err(EventLogError::io("read", &self.path))?;
        let mut events = Vec::new();
        let mut at = 0;
        loop {
            match frame::decode(&chunk[at..]) {
                Decoded::Event(event, bytes) => {
                    at += bytes;
                    events.push(LoggedEvent { event: *event, next_offset: offset + at as u64 });
                }
                Decoded::Corrupt(detail) if events.is_empty() => {
                    return Err(EventLogError::Corrupt { path: self.path.clone(), offset, detail });
                }
                Decoded::Incomplete | Decoded::Corrupt(_) => return Ok(events),
            }
        }
    }

    /// Returns true if the unreadable bytes at `offset` are a torn tail: no event follows them, or
    /// the next writer has already replaced them.
    pub fn is_torn(&self, offset: u64) -> Result<bool, EventLogError> {
        let rest = self.read_chunk(offset).map_err(EventLogError::io("read", &self.path))?;
        // A tail is what was written in the moments before the machine went down.
        let replaced = matches!(frame::decode(&rest), Decoded::Event(..));
        Ok(replaced || rest.len() < CHUNK_BYTES && !frame::is_anywhere(&rest))
    }

    /// Waits until all that can be read is on disk. A reader that stores its offset durably calls
    /// this first: after a crash of the machine the log may otherwise end before that offset, and
    /// the reader would skip the events that the next writer appends.
    pub fn sync(&self) -> Result<(), EventLogError> {
        self.file.sync_data().map_err(EventLogError::io("sync", &self.path))
    }

    fn read_chunk(&self, offset: u64) -> io::Result<Vec<u8>> {
        let available = self.file.metadata()?.len().saturating_sub(offset);
        let wanted = usize::try_from(available).unwrap_or(usize::MAX);
        let mut chunk = vec![0; wanted.min(CHUNK_BYTES)];
        let mut filled = 0;
        while filled < chunk.len() {
            match self.file.read_at(&mut chunk[filled..], offset + filled as u64) {
                Ok(0) => break, // a writer cut off a torn tail meanwhile
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        chunk.truncate(filled);
        Ok(chunk)
    }
}
