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

/// The most events of a small batch, and the bytes that are read for it. In memory, an event may take some twenty times
/// its bytes.
const BATCH_EVENTS_MAX: usize = 1000;
const BATCH_BYTES: usize = 256 << 10;

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
        self.read(offset, CHUNK_BYTES, usize::MAX)
    }

    /// Returns the next events as [`Self::read_from`], but fewer at once, for those who read many logs, or logs that
    /// others write: memory stays bounded whatever they contain.
    pub fn read_batch(&self, offset: u64) -> Result<Vec<LoggedEvent>, EventLogError> {
        let events = self.read(offset, BATCH_BYTES, BATCH_EVENTS_MAX)?;
        match events.is_empty() {
            // The next one may be larger.
            true => self.read(offset, FRAME_BYTES_MAX + HEADER_BYTES, 1),
            false => Ok(events),
        }
    }

    /// Returns the events that are whole in so many bytes, up to a number of them.
    fn read(
        &self,
        offset: u64,
        bytes_max: usize,
        events_max: usize,
    ) -> Result<Vec<LoggedEvent>, EventLogError> {
        let chunk = self.read_chunk(offset, bytes_max);
        let chunk = chunk.map_err(EventLogError::io("read", &self.path))?;
        let mut events = Vec::new();
        let mut at = 0;
        loop {
            if events.len() == events_max {
                return Ok(events);
            }
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
        let rest =
            self.read_chunk(offset, CHUNK_BYTES).map_err(EventLogError::io("read", &self.path))?;
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

    fn read_chunk(&self, offset: u64, bytes_max: usize) -> io::Result<Vec<u8>> {
        let available = self.file.metadata()?.len().saturating_sub(offset);
        let wanted = usize::try_from(available).unwrap_or(usize::MAX);
        let mut chunk = vec![0; wanted.min(bytes_max)];
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
