//! The reports of a job's other hosts. The first host writes the job's log, and cannot report its own death.

use traind_proto::v1::event::Kind;
use traind_proto::{reasons, v1};

use crate::jobs::run_dir::RunDir;
use crate::jobs::store::Job;

/// Hosts that are asked. All of them name the same one, unless they died too.
const ASKED: u32 = 8;

/// Returns what another host reports about the loss of the first one in the job's newest attempt.
pub(super) fn of_lost_first_host(run_dir: &RunDir, job: &Job) -> Option<v1::Failure> {
    if job.finished.is_some() {
        return None;
    }
    (1..job.hosts.min(ASKED + 1)).find_map(|rank| report(run_dir, rank, job.attempt))
}

/// The loss that a host reports with its last event in `attempt`.
fn report(run_dir: &RunDir, rank: u32, attempt: u32) -> Option<v1::Failure> {
    // A host that did not run has no log, and one that died left an event incomplete.
    let log = run_dir.open_host_events_log(rank).ok()?;
    let (mut offset, mut is_of_attempt, mut newest) = (0, false, None);
    while let Some(events) = log.read_batch(offset).ok().filter(|events| !events.is_empty()) {
        for logged in events {
            offset = logged.next_offset;
            newest = None;
            match logged.event.kind {
                Some(Kind::Started(started)) => is_of_attempt = started.attempt == attempt,
                Some(Kind::Finished(finished)) if is_of_attempt => newest = finished.failure,
                _ => {}
            }
        }
    }
    newest.filter(|failure| failure.reason == reasons::HOST_LOST)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use traind_proto::event_log::EventLogWriter;

    use super::*;
    use crate::jobs::store::{NewJob, Store};

    #[test]
    fn the_loss_of_the_first_host_is_found_in_the_newest_attempt_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let new = NewJob { id: "a".into(), hosts: 3, ..NewJob::default() };
        let mut job = Job { attempt: 2, ..store.create(&new).unwrap() };
        let run_dir = RunDir::new(folder.path(), "a");
        run_dir.create(None).unwrap();
        let hosts = run_dir.path().join("hosts/2");
        fs::create_dir_all(&hosts).unwrap();
        let mut log = EventLogWriter::open(&hosts.join("events.log")).unwrap();
        let started = |attempt| Kind::Started(v1::Started { attempt, ..Default::default() });
        let lost = |host: &str| {
            let (reason, host) = (reasons::HOST_LOST.to_owned(), Some(host.to_owned()));
            let failure = Some(v1::Failure { reason, host, ..Default::default() });
            Kind::Finished(v1::Finished { failure, ..Default::default() })
        };
        let found = |job: &Job| of_lost_first_host(&run_dir, job)?.host;
        for (kind, expect) in [
            (started(1), None),
            (lost("n7"), None),
            (started(2), None),
            (lost("n8"), Some("n8".to_owned())),
        ] {
            log.append(kind).unwrap();
            assert_eq!(found(&job), expect);
        }
        // The job's own log counts.
        job.finished = Some(v1::Finished::default());
        assert_eq!(found(&job), None);
    }
}
