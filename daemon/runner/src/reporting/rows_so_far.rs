//! Reports now and then how many rows a long task has done.

use std::time::{Duration, Instant};

use traind_job_file::commands::PARENT_VARIABLE;

use super::Journal;
use crate::error::RunResult;

/// The time between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(30);
/// The time between two reports of a command's run to a person who waits.
const REPORT_EVERY_TO_PERSON: Duration = Duration::from_secs(1);

/// The time since the last report.
#[derive(Debug)]
pub(crate) struct RowsSoFar {
    journal: Journal,
    reported: Instant,
    every: Duration,
}

impl RowsSoFar {
    pub(crate) fn new(journal: &Journal) -> RowsSoFar {
        let every = match std::env::var_os(PARENT_VARIABLE) {
            Some(_) => REPORT_EVERY_TO_PERSON,
            None => REPORT_EVERY,
        };
        RowsSoFar { journal: journal.clone(), reported: Instant::now(), every }
    }

    /// Records a line if it is time.
    pub(crate) fn report(&mut self, line: impl FnOnce() -> String) -> RunResult<()> {
        if self.reported.elapsed() < self.every {
            return Ok(());
        }
        self.reported = Instant::now();
        Ok(self.journal.info(line())?)
    }
}

#[cfg(test)]
mod tests {
    use traind_proto::event_log::EventLogReader;

    use super::*;

    #[test]
    fn lines_are_recorded_when_it_is_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.log");
        let journal = Journal::open(&path).unwrap();
        let mut rows = RowsSoFar { every: Duration::MAX, ..RowsSoFar::new(&journal) };
        rows.report(|| unreachable!("it is not time")).unwrap();
        rows.every = Duration::ZERO;
        rows.report(|| "2 of 3 rows".to_owned()).unwrap();
        assert_eq!(EventLogReader::open(&path).unwrap().read_from(0).unwrap().len(), 1);
    }
}
