//! Preparations of waiting jobs. The process is a script here; the end-to-end tests have the real one.

use std::fs;

use traind_proto::v1::event::Kind;
use traind_proto::v1::{Event, Job, JobState, ListSharesRequest, Prepared};

use crate::security::access::own_user;
use crate::support::host::{Host, PATIENCE, until, until_file};
use crate::support::runner::{STOPS_WHEN_ASKED, install_planner, install_preparation};

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

/// A loop of some tenths of a second.
pub(super) const BUSY: &str = "i=0; while [ $i -lt 500000 ]; do i=$((i + 1)); done";
/// The least that counts for it, in seconds.
pub(super) const BUSY_SECONDS: f64 = 0.15;

/// The core time that counts in shares, in seconds.
pub(super) async fn used(host: &Host) -> f64 {
    let shares = host.cores().await.list_shares(ListSharesRequest::default()).await.unwrap();
    shares.into_inner().groups.iter().map(|group| group.usage_core_seconds).sum()
}

#[tokio::test]
async fn planners_and_preparations_count_in_fair_shares_however_they_end() {
    let mut host = Host::new(1, STOPS_WHEN_ASKED);
    // Its jobs wait, and no run counts.
    let user = own_user();
    let access = format!(
        "users: {{{user}: admin}}\nfair_shares: {{half_life_hours: 1000}}\n\
         groups: {{a: {{members: [{user}], limits: {{running_jobs: 0}}}}}}\n"
    );
    fs::write(host.path("access.yaml"), access).unwrap();
    host.options = vec!["--access".to_owned(), host.path("access.yaml").display().to_string()];
    // Preparations of the lowest priority hardly run on a busy machine.
    host.options.push("--test-keep-priority".to_owned());
    host.start().await;
    install_planner(&host.path(""), &format!("{BUSY}; echo 'no such model' >&2; exit 1"));
    let job = host.submit_with("planned", "cores: 1, prepare: false").await;
    let planned = used(&host).await;
    assert!(planned > BUSY_SECONDS, "{planned}");
    host.cancel(&job.id).await.unwrap();

    fs::remove_file(host.path("frames/plan.sh")).unwrap();
    install_preparation(&host.path(""), BUSY);
    let prepared = host.submit("prepared", 1).await;
    host.until(&prepared.id, |job| job.last_sequence == 3).await;
    let of_preparation = used(&host).await - planned;
    assert!(of_preparation > BUSY_SECONDS, "{of_preparation}");
    host.cancel(&prepared.id).await.unwrap();

    install_preparation(&host.path(""), &format!("{BUSY}; touch busy; cat > /dev/null"));
    let cancelled = host.submit("cancelled", 1).await;
    until_file(&host.path("busy")).await;
    let before = used(&host).await;
    host.cancel(&cancelled.id).await.unwrap();
    until_used(&host, before + BUSY_SECONDS).await;
}

/// Waits until so much core time counts.
pub(super) async fn until_used(host: &Host, seconds: f64) {
    let start = std::time::Instant::now();
    while used(host).await < seconds {
        assert!(start.elapsed() < PATIENCE, "{seconds}, {}", used(host).await);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
