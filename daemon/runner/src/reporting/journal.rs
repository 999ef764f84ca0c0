//! Writes events to the durable log of the run directory, and lines for a human to standard error,
//! which the daemon keeps as `runner.log`.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use traind_proto::event_log::{EventLogError, EventLogWriter};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Finished, Log, LogLevel, Warning};

use super::echo;

/// How long writes that fail are retried at the start and the end of a run.
const RETRY_FOR: Duration = Duration::from_secs(60);
const RETRY_EVERY: Duration = Duration::from_millis(200);
/// The longest text of an event, which may quote a word of a file: an event has a limited size.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// The most warnings that wait for [`Journal::take_warnings`].
const WARNINGS_MAX: usize = 100;

/// A cloneable handle to the event log.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    log: Arc<Mutex<EventLog>>,
}

#[derive(Debug)]
struct EventLog {
    writer: EventLogWriter,
    /// Whether the last event was written, after which there are none.
    has_ended: bool,
    /// The newest warnings, for the job's first host.
    warnings: Vec<String>,
    /// Whether events are printed besides.
    prints: bool,
}

impl Journal {
    pub(crate) fn open(path: &Path) -> Result<Journal, EventLogError> {
        let writer = retry(|| EventLogWriter::open(path))?;
        let truncated_bytes = writer.truncated_bytes();
        let log = EventLog { writer, has_ended: false, warnings: Vec::new(), prints: false };
        let journal = Journal { log: Arc::new(Mutex::new(log)) };
        if truncated_bytes > 0 {
            let message = format!("cut off {truncated_bytes} bytes of an unfinished event");
            journal.warn("EVENT_LOG_TORN", message)?;
        }
        Ok(journal)
    }

    /// Prints events too, from now on.
    pub(crate) fn print(&self) {
        self.log().prints = true;
    }

    /// Appends an event. The run must end where this fails.
    pub(crate) fn record(&self, mut kind: Kind) -> Result<(), EventLogError> {
        limit_texts(&mut kind);
        let mut log = self.log();
        log.print(&kind);
        if log.has_ended { Ok(()) } else { log.writer.append(kind).map(drop) }
    }

    /// Appends the last event and waits until all are durable. Retries, since the outcome of a run
    /// is known from this event alone. A thread that comes second appends nothing.
    pub(crate) fn record_last(&self, mut kind: Kind) -> Result<(), EventLogError> {
        limit_texts(&mut kind);
        if std::mem::replace(&mut self.log().has_ended, true) {
            return Ok(());
        }
        self.log().print(&kind);
        retry(|| self.log().writer.write(kind.clone()))?;
        if let Err(error) = self.log().writer.sync() {
            // The event can be read already; only a crash of the machine would lose it.
            print_line(format_args!("warning: the last event may not be on disk: {error}"));
        }
        Ok(())
    }

    /// Records a warning. `code` is machine-readable, in upper snake case.
    pub(crate) fn warn(&self, code: &str, message: impl Into<String>) -> Result<(), EventLogError> {
        let mut message = message.into();
        limit_text(&mut message);
        print_line(format_args!("warning: {code}: {message}"));
        self.keep_warning(format!("{code}: {message}"));
        self.record(Kind::Warning(Warning { code: code.to_owned(), message }))
    }

    /// Records a line of text.
    pub(crate) fn info(&self, message: impl Into<String>) -> Result<(), EventLogError> {
        self.record(Kind::Log(Log { level: LogLevel::Info.into(), message: message.into() }))
    }

    /// Takes the warnings since the last call.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.log().warnings)
    }

    fn keep_warning(&self, text: String) {
        let warnings = &mut self.log().warnings;
        if warnings.len() < WARNINGS_MAX {
            warnings.push(text);
        }
    }

    fn log(&self) -> MutexGuard<'_, EventLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventLog {
    fn print(&self, kind: &Kind) {
        if let Some(line) = echo::line(kind).filter(|_| self.prints) {
            print_line(line);
        }
    }
}

/// Cuts texts that may quote words of any length, such as a value of a model's config or the name of a column.
fn limit_texts(kind: &mut Kind) {
    match kind {
        Kind::Finished(Finished { failure: Some(failure), .. }) => {
            limit_text(&mut failure.message);
            let others = [&mut failure.field, &mut failure.file, &mut failure.tensor];
            others.into_iter().flatten().for_each(limit_text);
        }
        Kind::Warning(warning) => limit_text(&mut warning.message),
        Kind::Log(log) => limit_text(&mut log.message),
        _ => {}
    }
}

fn limit_text(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        let kept = text.floor_char_boundary(TEXT_BYTES_MAX);
        let left_out = text.len() - kept;
        text.truncate(kept);
        text.push_str(&format!("… and {left_out} bytes more"));
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

#[cfg(test)]
mod tests {
    use traind_proto::event_log::EventLogReader;
    use traind_proto::v1::Finished;

    use super::*;

    /// The daemon took a run that could not write its last event for one whose disk is full, and repeated it for hours.
    #[test]
    fn texts_that_quote_long_words_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.log");
        let journal = Journal::open(&path).unwrap();
        let long = "é".repeat(2 << 20);
        let failure = traind_proto::v1::Failure {
            message: format!("hidden_act: expected a name, found {long}"),
            file: Some(long.clone()),
            ..Default::default()
        };
        journal.warn("A", long.clone()).unwrap();
        journal.info(long).unwrap();
        let last = Finished { failure: Some(failure), ..Finished::default() };
        journal.record_last(Kind::Finished(last)).unwrap();
        let events = EventLogReader::open(&path).unwrap().read_from(0).unwrap();
        let Some(Kind::Finished(finished)) = events[2].event.kind.clone() else { panic!() };
        let message = finished.failure.unwrap().message;
        assert!(message.starts_with("hidden_act: expected a name, found éé"), "{}", message.len());
        assert!(message.ends_with("bytes more") && message.len() < 66 << 10, "{}", message.len());
    }

    #[test]
    fn the_last_event_is_the_first_of_two() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.log");
        let journal = Journal::open(&path).unwrap();
        journal.warn("A", "b").unwrap();
        assert_eq!(journal.take_warnings(), ["A: b"]);
        let last = |steps| Kind::Finished(Finished { steps, ..Finished::default() });
        journal.record_last(last(1)).unwrap();
        journal.record_last(last(2)).unwrap();
        journal.info("too late").unwrap();
        let events = EventLogReader::open(&path).unwrap().read_from(0).unwrap();
        let kinds: Vec<Kind> = events.into_iter().filter_map(|it| it.event.kind).collect();
        assert!(matches!(kinds[0], Kind::Warning(_)));
        assert_eq!(kinds[1..], [last(1)]);
        assert_eq!(journal.take_warnings(), Vec::<String>::new());
    }
}
