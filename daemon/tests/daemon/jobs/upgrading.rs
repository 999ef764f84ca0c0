//! The story of an upgrade and of the way back, with jobs that run, wait and have ended: none is lost, none is
//! restarted. The earlier version is known by its store, the later one by what it adds to records and logs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Event, Job, JobState};

use super::recovery::assert_whole;
use crate::support::host::Host;
use crate::support::runner::{self, WAITS_FOR_GO};
use crate::support::slurm::Slurm;

fn store_version(host: &Host) -> u32 {
    let store = rusqlite::Connection::open(host.path("state/traind.db")).unwrap();
    store.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

/// Takes the store back to the previous version, as its daemon left it. Returns the output.
fn downgrade(host: &Host) -> String {
    let output = host.cli(&["doctor", "--state-dir", "state", "--downgrade"]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Adds keys that this version does not know to the records of a job, and to its log an event of an unknown kind.
fn add_later_things(host: &Host, id: &str, log: &Path) {
    for name in ["job.json", "placement.json"] {
        let path = host.records(id).join(name);
        let Ok(text) = fs::read(&path) else { continue };
        let mut record: Value = serde_json::from_slice(&text).unwrap();
        record["of_a_later_version"] = json!({"key": [1]});
        fs::write(&path, record.to_string()).unwrap();
    }
    if log.exists() {
        let later = fs::read(later_event()).unwrap();
        let mut events = fs::read(log).unwrap();
        events.extend(later);
        fs::write(log, events).unwrap();
    }
}

/// The log of an event that no version has.
fn later_event() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/tests/event_logs/later.log")
}

/// Checks that a job is as it was before another version took over.
async fn assert_kept(host: &Host, before: &Job) {
    let now = host.get(&before.id).await;
    let essence = |job: &Job| {
        (
            job.state(),
            job.attempt,
            job.restarts,
            job.cores.clone(),
            job.owner.clone(),
            job.create_time,
        )
    };
    assert_eq!(essence(&now), essence(before), "{}", host.log());
}

/// The events that this version knows.
fn known(events: Vec<Event>) -> Vec<Event> {
    let is_known = |event: &Event| event.kind.is_some();
    let known = events.into_iter().filter(is_known).zip(1..);
    known.map(|(event, sequence)| Event { sequence, ..event }).collect()
}

#[tokio::test]
async fn an_upgrade_and_the_way_back_lose_and_restart_no_job() {
    let mut host = Host::new(2, WAITS_FOR_GO);
    let slurm = Slurm::install(&mut host);
    host.start().await;
    let ended = host.submit("ended", 1).await;
    host.until_state(&ended.id, JobState::Running).await;
    fs::write(host.run_dir(&ended.id).join("go"), "").unwrap();
    let ended = host.until_state(&ended.id, JobState::Completed).await;
    let running = host.submit("running", 2).await;
    let is_at_20 = |job: &Job| job.progress.as_ref().is_some_and(|step| step.step == 20);
    let running = host.until(&running.id, is_at_20).await;
    let wide = host.submit_with("wide", "cores: 4, hosts: 2, engine: slurm").await;
    let wide = host.until(&wide.id, is_at_20).await;
    let mut request = host.request("waiting", 1);
    request.request_id = "once".into();
    let waiting = host.create(request.clone()).await.unwrap();
    let runners = runner::pids(&host.run_dir(&running.id));
    let all = [&ended, &running, &wide, &waiting];

    host.kill_daemon();
    let newest = store_version(&host);
    let said = downgrade(&host);
    assert!(said.contains(&format!("back to version {}", newest - 1)), "{said}");
    assert_eq!(store_version(&host), newest - 1);
    host.start().await;
    assert_eq!(store_version(&host), newest, "an upgrade");
    for job in all {
        assert_kept(&host, job).await;
    }

    host.kill_daemon();
    for job in all {
        add_later_things(&host, &job.id, &host.run_dir(&job.id).join("events.log"));
    }
    downgrade(&host);
    host.start().await;
    for job in all {
        assert_kept(&host, job).await;
    }
    assert_eq!(runner::pids(&host.run_dir(&running.id)), runners, "the same runner, and only it");
    assert_eq!(host.create(request).await.unwrap().id, waiting.id, "created once");
    for job in [&running, &wide] {
        fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
        let events = host.events(&job.id, 1).await;
        let starts = events.iter().filter(|it| matches!(it.kind, Some(Kind::Started(_)))).count();
        assert_eq!(starts, 1);
        assert_whole(&known(events));
        assert_eq!(host.get(&job.id).await.state(), JobState::Completed);
    }
    assert_eq!(slurm.count(), 1, "submitted once");
    host.until_state(&waiting.id, JobState::Running).await;
    fs::write(host.run_dir(&waiting.id).join("go"), "").unwrap();
    assert_whole(&host.events(&waiting.id, 1).await);
}

/// A daemon whose store is older than the file says which command of the newer one takes it back.
#[tokio::test]
async fn a_store_of_a_later_version_names_the_way_back() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    host.kill_daemon();
    let newest = store_version(&host);
    let store = rusqlite::Connection::open(host.path("state/traind.db")).unwrap();
    store.pragma_update(None, "user_version", newest + 1).unwrap();
    drop(store);
    assert_eq!(host.serve().status().unwrap().code(), Some(1));
    let command = format!("traind doctor --downgrade={newest}");
    assert!(host.log().contains(&command), "{}", host.log());
    let refused = host.cli(&["doctor", "--state-dir", "state", "--downgrade"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}
