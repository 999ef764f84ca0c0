//! Appends events. An event is visible to readers, and survives the death of the
//! process, when `append` returns; it survives the death of the machine at
//! once, or at most `SYNC_DELAY` later for those that come with every step.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::EventLogError;
use super::frame::{self, Decoded};
use super::syncer::Syncer;
use crate::v1::{Event, event};

/// How late a step's event may reach the disk.
const SYNC_DELAY: Duration = Duration::from_millis(200);

/// Appends to an event log. There is one writer at a time.
#[derive(Debug)]
pub struct EventLogWriter {
    file: File,
    path: PathBuf,
    /// The offset of the next frame: the end of the last whole one.
    end: u64,
    next_sequence: u64,
    truncated_bytes: u64,
    /// True if part of a frame behind the end could not be cut off.
    torn: bool,
    syncer: Syncer,
}

impl EventLogWriter {
    /// Opens a log, or makes an empty one. A torn tail is cut off; a corrupt
    /// frame with intact ones behind it is an error.
    pub fn open(path: &Path) -> Result<Self, EventLogError> {
        let mut file = open_locked(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(EventLogError::io("read", path))?;
        let intact = scan(&bytes, path)?;
        let syncer =
            prepare(&file, path, intact.end).map_err(EventLogError::io("prepare", path))?;
        Ok(Self {
            file,
            path: path.to_owned(),
            end: intact.end,
            next_sequence: intact.last_sequence + 1,
            truncated_bytes: bytes.len() as u64 - intact.end,
            torn: false,
            syncer,
        })
    }

    /// Bytes of a torn tail that `open` cut off; worth a warning if not 0.
    pub fn truncated_bytes(&self) -> u64 {
        self.truncated_bytes
    }

    /// Appends an event that happened now and returns it with its sequence,
    /// which counts on from what the log held when it was opened.
    pub fn append(&mut self, kind: event::Kind) -> Result<Event, EventLogError> {
        if let Some(error) = self.syncer.take_failure() {
            return Err(EventLogError::io("sync", &self.path)(error));
        }
        let urgent = !may_be_synced_late(&kind);
        let event = self.write(kind)?;
        if urgent {
            self.sync()?;
        } else {
            self.syncer.request();
        }
        Ok(event)
    }

    /// Appends an event without waiting for the disk: it can be read, but may be lost if the machine crashes before the
    /// next `sync`.
    pub fn write(&mut self, kind: event::Kind) -> Result<Event, EventLogError> {
        let event = Event {
            sequence: self.next_sequence,
            time: Some(SystemTime::now().into()),
            kind: Some(kind),
        };
        self.write_frame(&frame::encode(&event)?)?;
        self.next_sequence += 1;
        Ok(event)
    }

    /// Waits until all that was appended is on disk.
    pub fn sync(&self) -> Result<(), EventLogError> {
        self.file.sync_data().map_err(EventLogError::io("sync", &self.path))
    }

    /// Writes a whole frame or nothing: half a frame in front of the next one
    /// would be damage.
    fn write_frame(&mut self, frame: &[u8]) -> Result<(), EventLogError> {
        if self.torn {
            self.file.set_len(self.end).map_err(EventLogError::io("truncate", &self.path))?;
        }
        self.torn = true;
        if let Err(error) = self.file.write_all(frame) {
            self.torn = self.file.set_len(self.end).is_err();
            return Err(EventLogError::io("append to", &self.path)(error));
        }
        self.torn = false;
        self.end += frame.len() as u64;
        Ok(())
    }
}

/// Returns true for events that are frequent and that a crash of the machine may lose.
fn may_be_synced_late(kind: &event::Kind) -> bool {
    matches!(kind, event::Kind::Step(_) | event::Kind::Log(_))
}

fn open_locked(path: &Path) -> Result<File, EventLogError> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)
        .map_err(EventLogError::io("open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(EventLogError::Locked { path: path.to_owned() })
        }
        Err(std::fs::TryLockError::Error(error)) => Err(EventLogError::io("lock", path)(error)),
    }
}

/// Cuts the file to `end`, makes its name durable and starts the syncer.
fn prepare(file: &File, path: &Path, end: u64) -> io::Result<Syncer> {
    file.set_len(end)?;
    file.sync_all()?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()?;
    Syncer::start(file.try_clone()?, SYNC_DELAY)
}

/// The intact part of a log.
struct Intact {
    end: u64,
    last_sequence: u64,
}

fn scan(bytes: &[u8], path: &Path) -> Result<Intact, EventLogError> {
    let mut at = 0;
    let mut last_sequence = 0;
    loop {
        let detail = match frame::decode(&bytes[at..]) {
            Decoded::Event(event, length) => {
                last_sequence = event.sequence;
                at += length;
                continue;
            }
            Decoded::Incomplete => "frame is cut short",
            Decoded::Corrupt(detail) => detail,
        };
        if frame::is_anywhere(&bytes[at..]) {
            return Err(EventLogError::Corrupt {
                path: path.to_owned(),
                offset: at as u64,
                detail,
            });
        }
        return Ok(Intact { end: at as u64, last_sequence });
    }
}
