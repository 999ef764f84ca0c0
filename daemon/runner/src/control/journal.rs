//! Writes events to the durable log of the run directory, and lines for a human to standard error,
//! which the daemon keeps as `runner.log`.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use traind_proto::event_log::{EventLogError, EventLogWriter};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Log, LogLevel, Warning};

/// How long writes that fail are retried at the start and the end of a run.
const RETRY_FOR: Duration = Duration::from_secs(60);
const RETRY_EVERY: Duration = Duration::from_millis(200);

/// A cloneable handle to the event log.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    writer: Arc<Mutex<EventLogWriter>>,
}

impl Journal {
    pub(crate) fn open(path: &Path) -> Result<Journal, EventLogError> {
        let writer = retry(|| EventLogWriter::open(path))?;
        let truncated_bytes = writer.truncated_bytes();
        let journal = Journal { writer: Arc::new(Mutex::new(writer)) };
        if truncated_bytes > 0 {
            let message = format!("cut off {truncated_bytes} bytes of an unfinished event");
            journal.warn("EVENT_LOG_TORN", message)?;
        }
        Ok(journal)
    }

    /// Appends an event. The run must end where this fails.
    pub(crate) fn record(&self, kind: Kind) -> Result<(), EventLogError> {
        self.writer().append(kind).map(drop)
    }

    /// Appends the last event and waits until all are durable. Retries, since the outcome of a run
    /// is known from this event alone.
    pub(crate) fn record_last(&self, kind: Kind) -> Result<(), EventLogError> {
        retry(|| self.writer().write(kind.clone()))?;
        if let Err(error) = self.writer().sync() {
            // The event can be read already; only a crash of the machine would lose it.
            print_line(format_args!("warning: the last event may not be on disk: {error}"));
        }
        Ok(())
    }

    /// Records a warning. `code` is machine-readable, in upper snake case.
    pub(crate) fn warn(&self, code: &str, message: impl Into<String>) -> Result<(), EventLogError> {
        let message = message.into();
        print_line(format_args!("warning: {code}: {message}"));
        self.record(Kind::Warning(Warning { code: code.to_owned(), message }))
    }

    /// Records a line of text.
    pub(crate) fn info(&self, message: impl Into<String>) -> Result<(), EventLogError> {
        self.record(Kind::Log(Log { level: LogLevel::Info.into(), message: message.into() }))
    }

    fn writer(&self) -> MutexGuard<'_, EventLogWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a line to `runner.log`. Unlike `eprintln!` it does not panic where the disk is full.
pub(crate) fn print_line(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Retries `work` while it fails with an I/O error.
fn retry<T>(mut work: impl FnMut() -> Result<T, EventLogError>) -> Result<T, EventLogError> {
    let start = Instant::now();
    loop {
        match work() {
            Err(EventLogError::Io { .. }) if start.elapsed() < RETRY_FOR => {
                std::thread::sleep(RETRY_EVERY);
            }
            result => return result,
        }
    }
}
