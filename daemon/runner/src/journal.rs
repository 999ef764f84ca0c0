//! The runner's voice: events into the durable log of the run directory, and
//! a line for each on standard output, which the daemon keeps as runner.log.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use traind_proto::event_log::{EventLogError, EventLogWriter};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Log, LogLevel, Warning};

/// A cloneable handle to the log.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    writer: Arc<Mutex<EventLogWriter>>,
}

impl Journal {
    pub(crate) fn open(path: &Path) -> Result<Journal, EventLogError> {
        let writer = EventLogWriter::open(path)?;
        let cut_off = writer.truncated_bytes();
        let journal = Journal { writer: Arc::new(Mutex::new(writer)) };
        if cut_off > 0 {
            let message = format!("{cut_off} bytes of an unfinished event were cut off");
            journal.warn("EVENT_LOG_TORN", message)?;
        }
        Ok(journal)
    }

    /// Appends an event. A run whose log cannot be written must not go on.
    pub(crate) fn record(&self, kind: Kind) -> Result<(), EventLogError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.append(kind).map(drop)
    }

    /// `code` is machine-readable, in upper snake case.
    pub(crate) fn warn(&self, code: &str, message: impl Into<String>) -> Result<(), EventLogError> {
        let message = message.into();
        eprintln!("warning: {code}: {message}");
        self.record(Kind::Warning(Warning { code: code.to_owned(), message }))
    }

    /// A line for people.
    pub(crate) fn info(&self, message: impl Into<String>) -> Result<(), EventLogError> {
        self.record(Kind::Log(Log { level: LogLevel::Info.into(), message: message.into() }))
    }

    /// Waits until all events are on disk.
    pub(crate) fn sync(&self) -> Result<(), EventLogError> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).sync()
    }
}
