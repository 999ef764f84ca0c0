//! The runner's voice: events into the durable log of the run directory, and
//! a line for each on standard output, which the daemon keeps as runner.log.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use traind_proto::event_log::{EventLogError, EventLogWriter};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Log, LogLevel, Warning};

/// How long a disk that takes nothing is given to get well, where there is nothing else to do.
const PATIENCE: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(200);

/// A cloneable handle to the log.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    writer: Arc<Mutex<EventLogWriter>>,
}

impl Journal {
    pub(crate) fn open(path: &Path) -> Result<Journal, EventLogError> {
        let writer = patiently(|| EventLogWriter::open(path))?;
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
        self.writer().append(kind).map(drop)
    }

    /// Appends the last event and waits until all are on disk. Nobody learns how a run ended that
    /// cannot say it, so this is tried for a while.
    pub(crate) fn conclude(&self, kind: Kind) -> Result<(), EventLogError> {
        patiently(|| self.writer().write(kind.clone()))?;
        if let Err(error) = self.writer().sync() {
            // It can be read already, and is lost only if the machine goes down now.
            say(format_args!("warning: the last event may not be on disk: {error}"));
        }
        Ok(())
    }

    /// `code` is machine-readable, in upper snake case.
    pub(crate) fn warn(&self, code: &str, message: impl Into<String>) -> Result<(), EventLogError> {
        let message = message.into();
        say(format_args!("warning: {code}: {message}"));
        self.record(Kind::Warning(Warning { code: code.to_owned(), message }))
    }

    /// A line for people.
    pub(crate) fn info(&self, message: impl Into<String>) -> Result<(), EventLogError> {
        self.record(Kind::Log(Log { level: LogLevel::Info.into(), message: message.into() }))
    }

    fn writer(&self) -> MutexGuard<'_, EventLogWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints a line into runner.log. Unlike `eprintln!` it does not panic where the disk takes none.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Tries again what the disk refuses.
fn patiently<T>(mut work: impl FnMut() -> Result<T, EventLogError>) -> Result<T, EventLogError> {
    let start = Instant::now();
    loop {
        match work() {
            Err(EventLogError::Io { .. }) if start.elapsed() < PATIENCE => {
                std::thread::sleep(RETRY);
            }
            result => return result,
        }
    }
}
