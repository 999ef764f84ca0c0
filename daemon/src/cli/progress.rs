//! Shows on a terminal how far a command's runs are.

use std::future::Future;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use traind_proto::event_log::EventLogReader;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{DataPrepared, Fetched, Log};
use traind_wording::counted;

use crate::interfaces::text::printable;

/// The time between two looks.
const PERIOD: Duration = Duration::from_millis(500);
/// Moves to the beginning of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// The event logs of a command's runs, with the words that come before their lines.
pub(super) struct Progress {
    logs: Vec<(PathBuf, &'static str)>,
}

impl Progress {
    /// The logs of runs in folders of a scratch folder, the last run first.
    pub(super) fn of_runs(scratch: &Path, folders: &[(&str, &'static str)]) -> Progress {
        let log = |folder: &str| scratch.join(folder).join("vectors/run/events.log");
        Progress { logs: folders.iter().map(|(folder, words)| (log(folder), *words)).collect() }
    }

    /// Does `work`, and shows meanwhile the last line of the runs on a terminal.
    pub(super) async fn shown_during<T>(&self, work: impl Future<Output = T>) -> T {
        if !stderr().is_terminal() {
            return work.await;
        }
        let mut work = std::pin::pin!(work);
        let mut shown = None;
        loop {
            match tokio::time::timeout(PERIOD, &mut work).await {
                Ok(done) => {
                    if shown.is_some() {
                        show("");
                    }
                    return done;
                }
                Err(_) => {
                    let line = self.last_line();
                    if line.is_some() && line != shown {
                        show(line.as_deref().unwrap_or_default());
                        shown = line;
                    }
                }
            }
        }
    }

    /// The last line of the last run that has begun.
    fn last_line(&self) -> Option<String> {
        self.logs.iter().find_map(|(log, words)| {
            let events = EventLogReader::open(log).and_then(|log| log.read_from(0)).ok()?;
            let line = events.into_iter().rev().find_map(|event| line(&event.event.kind?));
            Some(format!("{words}{}", line?))
        })
    }
}

fn line(kind: &Kind) -> Option<String> {
    match kind {
        // The only split of such a run.
        Kind::Log(Log { message, .. }) => {
            Some(message.strip_prefix("test data: ").unwrap_or(message).to_owned())
        }
        Kind::DataPrepared(DataPrepared { rows, .. }) => {
            Some(format!("{} tokenized", counted(rows, "row")))
        }
        Kind::Fetched(Fetched { name, bytes, bytes_total, .. }) => {
            let percent = 100 * bytes / (*bytes_total).max(1);
            Some(format!("{name}: {percent} % downloaded"))
        }
        _ => None,
    }
}

fn show(line: &str) {
    let mut err = stderr().lock();
    // A terminal that is gone shows nothing.
    let _ = write!(err, "{CLEAR}{}", printable(line)).and_then(|()| err.flush());
}

#[cfg(test)]
mod tests {
    use traind_proto::event_log::EventLogWriter;

    use super::*;

    #[test]
    fn the_last_line_is_that_of_the_last_run() {
        let folder = tempfile::tempdir().unwrap();
        let progress = Progress::of_runs(folder.path(), &[("texts", "texts: "), ("queries", "")]);
        assert_eq!(progress.last_line(), None);
        let log = |run: &str, kind: Kind| {
            let path = folder.path().join(run).join("vectors/run/events.log");
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            EventLogWriter::open(&path).unwrap().append(kind).unwrap();
        };
        let said = |message: &str| Kind::Log(Log { message: message.to_owned(), ..Log::default() });
        log("queries", Kind::DataPrepared(DataPrepared { rows: 7, ..DataPrepared::default() }));
        assert_eq!(progress.last_line().unwrap(), "7 rows tokenized");
        log("queries", said("test data: 3 of 7 rows done"));
        assert_eq!(progress.last_line().unwrap(), "3 of 7 rows done");
        log("texts", said("test data: 1 of 9 rows done"));
        assert_eq!(progress.last_line().unwrap(), "texts: 1 of 9 rows done");
    }
}
