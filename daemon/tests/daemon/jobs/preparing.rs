//! Preparations of waiting jobs. The process is a script here; the end-to-end tests have the real one.

use std::fs;

use traind_proto::v1::event::Kind;
use traind_proto::v1::{Event, Job, JobState, Prepared};

use crate::support::host::{Host, until, until_file};
use crate::support::runner::STOPS_WHEN_ASKED;

/// A host on which preparations answer at once.
async fn host_that_prepares(answer: &str) -> Host {
    let mut host = Host::new(1, STOPS_WHEN_ASKED);
    fs::write(host.path("preparation.json"), answer).unwrap();
    host.start().await;
    host
}

/// A host on which one job runs, and another waits with a preparation that does not end by itself.
async fn preparing_host() -> (Host, [Job; 2], u32) {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let first = host.submit("first", 1).await;
    host.until_state(&first.id, JobState::Running).await;
    let second = host.submit("second", 1).await;
    let pid = preparing(&host).await;
    (host, [first, second], pid)
}

/// Waits for the next preparation. Returns its process id.
async fn preparing(host: &Host) -> u32 {
    let file = host.path("preparing");
    until_file(&file).await;
    let pid = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    fs::remove_file(file).unwrap();
    pid
}

/// Waits until a preparation has ended.
async fn until_ended(pid: u32) {
    let alive = || fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    until("the preparation ends", || !alive()).await;
}

fn kinds(events: &[Event]) -> Vec<&Kind> {
    events.iter().filter_map(|event| event.kind.as_ref()).collect()
}

#[tokio::test]
async fn a_waiting_job_reports_its_preparation_once() {
    let host =
        host_that_prepares(r#"{"prepared": {"programs": 3, "compiled": 2, "seconds": 4.5}}"#).await;
    let first = host.submit("first", 1).await;
    host.until_state(&first.id, JobState::Running).await;
    let without = host.submit_with("without", "cores: 1, prepare: false").await;
    let second = host.submit("second", 1).await;
    // Created, waiting, prepared.
    host.until(&second.id, |job| job.last_sequence == 3).await;
    for job in [&first, &without, &second] {
        host.cancel(&job.id).await.unwrap();
    }
    let expect = Kind::Prepared(Prepared { programs: 3, compiled: 2, seconds: 4.5 });
    let events = host.events(&second.id, 0).await;
    assert_eq!(kinds(&events).into_iter().filter(|kind| **kind == expect).count(), 1, "{events:?}");
    for job in [&first, &without] {
        let events = host.events(&job.id, 0).await;
        assert!(!kinds(&events).contains(&&expect), "{events:?}");
    }
}

#[tokio::test]
async fn a_preparation_that_fails_is_a_warning() {
    let host =
        host_that_prepares(r#"{"failed": {"message": "train.csv: row 7 has 3 fields"}}"#).await;
    let first = host.submit("first", 1).await;
    host.until_state(&first.id, JobState::Running).await;
    let second = host.submit("second", 1).await;
    host.until(&second.id, |job| job.last_sequence == 3).await;
    host.cancel(&second.id).await.unwrap();
    let events = host.events(&second.id, 0).await;
    let warned = kinds(&events).into_iter().any(|kind| {
        matches!(kind, Kind::Warning(warning) if warning.code == "PREPARATION_FAILED"
            && warning.message.contains("row 7 has 3 fields"))
    });
    assert!(warned, "{events:?}");
}

#[tokio::test]
async fn a_preparation_is_of_the_lowest_priority_and_ends_with_its_job() {
    let (host, [_, second], pid) = preparing_host().await;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    const NICE: usize = 16; // counted behind the command's name
    assert_eq!(fields.split_whitespace().nth(NICE), Some("19"), "{stat}");
    let score = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
    assert_eq!(score.trim(), "1000");
    host.cancel(&second.id).await.unwrap();
    until_ended(pid).await;
}

#[tokio::test]
async fn a_job_that_starts_ends_the_preparation_of_any() {
    let (host, [first, second], pid) = preparing_host().await;
    let third = host.submit_with("third", "cores: 1, priority: 5").await;
    host.cancel(&first.id).await.unwrap();
    host.until_state(&third.id, JobState::Running).await;
    until_ended(pid).await;
    let again = preparing(&host).await;
    assert_ne!(pid, again, "it is prepared when the other has started");
    host.cancel(&third.id).await.unwrap();
    host.until_state(&second.id, JobState::Running).await;
    until_ended(again).await;
}

#[tokio::test]
async fn a_preparation_ends_with_its_daemon() {
    let (mut host, _, pid) = preparing_host().await;
    host.kill_daemon();
    until_ended(pid).await;
    host.start().await;
    let pid = preparing(&host).await;
    assert_eq!(host.cli(&["drain"]).status.code(), Some(0));
    until_ended(pid).await;
    assert_eq!(host.daemon_end().await, Some(0));
}
