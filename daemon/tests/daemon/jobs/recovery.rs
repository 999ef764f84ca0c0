//! Deaths of the daemon, which jobs survive.

use std::fs;

use traind_proto::v1::event::Kind;
use traind_proto::v1::{Event, JobState};

use crate::support::host::{Host, until_file};
use crate::support::runner::{self, STEPS, STUBBORN, WAITS_FOR_GO};

/// Checks that every step is reported once, in order, with contiguous sequences.
pub(crate) fn assert_whole(events: &[Event]) {
    let sequences: Vec<u64> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (1..=events.len() as u64).collect::<Vec<_>>());
    let steps: Vec<u64> = events
        .iter()
        .filter_map(|event| match &event.kind {
            Some(Kind::Step(step)) => Some(step.step),
            _ => None,
        })
        .collect();
    assert_eq!(steps, (1..=STEPS).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_next_daemon_attaches_to_the_runner() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    let before = runner::pids(&host.run_dir(&job.id));

    host.kill_daemon();
    host.start().await;
    assert_eq!(host.get(&job.id).await.state(), JobState::Running);
    fs::write(host.run_dir(&job.id).join("go"), "").unwrap();

    assert_eq!(runner::pids(&host.run_dir(&job.id)), before, "the same runner, and only it");
    assert_whole(&host.events(&job.id, 1).await);
    assert_eq!(host.get(&job.id).await.state(), JobState::Completed);
}

#[tokio::test]
async fn a_job_that_ended_without_a_daemon_is_settled_with_all_events() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    host.kill_daemon();
    fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    while !runner::pids(&host.run_dir(&job.id)).is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    host.start().await;
    assert_whole(&host.events(&job.id, 1).await);
    assert_eq!(host.get(&job.id).await.state(), JobState::Completed);
}

#[tokio::test]
async fn a_runner_that_died_without_a_daemon_fails_its_job() {
    let script = "say started; say_steps 1 2; until [ -e go ]; do sleep 0.02; done; echo last words; kill -9 $$";
    let mut host = Host::started(1, script).await;
    let job = host.submit("first", 1).await;
    host.until(&job.id, |job| job.progress.as_ref().is_some_and(|step| step.step == 2)).await;
    host.kill_daemon();
    fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    while !runner::pids(&host.run_dir(&job.id)).is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    host.start().await;
    let failure = host.until_state(&job.id, JobState::Failed).await.failure.unwrap();
    assert_eq!(failure.reason, "RUNNER_DIED");
    assert!(failure.message.contains("last words"), "{}", failure.message);
}

/// After a reboot, or when pids wrap around, a runner's pid may be another process's.
#[tokio::test]
async fn another_process_with_a_runners_pid_is_not_killed() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let mut innocent = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", innocent.id())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let start_time: u64 = fields.split_whitespace().nth(19).unwrap().parse().unwrap();
    for (name, differs) in [("first", "start_time"), ("second", "boot_id")] {
        let job = host.submit(name, 1).await;
        host.until_state(&job.id, JobState::Running).await;
        host.kill_daemon();
        for pid in runner::pids(&host.run_dir(&job.id)) {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
        let path = host.records(&job.id).join("runner-1.json");
        let mut claim: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        claim["runner"]["pid"] = innocent.id().into();
        claim["runner"]["start_time"] = start_time.into();
        match differs {
            "start_time" => claim["runner"]["start_time"] = (start_time + 1).into(),
            _ => claim["runner"]["boot_id"] = "another".into(),
        }
        fs::write(&path, claim.to_string()).unwrap();
        host.start().await;
        let ended = host.until(&job.id, |job| job.state() != JobState::Running).await;
        match differs {
            "start_time" => assert_eq!(ended.failure.unwrap().reason, "RUNNER_DIED"),
            // A machine that went down is not a failure of the job.
            _ => {
                let again = host.until(&job.id, |job| job.attempt == 2).await;
                assert_eq!((again.restarts, again.failure), (0, None));
                let reasons = state_reasons(&host, &job.id).await;
                assert!(reasons.iter().any(|it| it.contains("machine went down")), "{reasons:?}");
            }
        }
        assert_eq!(innocent.try_wait().unwrap(), None, "{differs}");
    }
    innocent.kill().unwrap();
    innocent.wait().unwrap();
}

#[tokio::test]
async fn many_kills_neither_lose_nor_duplicate_events() {
    let script = "
        trap 'say cancelled; exit 3' TERM INT
        say started
        step=1
        while [ $step -le 40 ]; do say step-$step; step=$((step + 1)); sleep 0.02; done
        say completed";
    let mut host = Host::started(1, script).await;
    let job = host.submit("first", 1).await;
    for _ in 0..6 {
        host.kill_daemon();
        host.start().await;
    }
    assert_whole(&host.events(&job.id, 1).await);
    // If the first kill comes before the launch, the job is placed again and runs once.
    assert_eq!(host.get(&job.id).await.state(), JobState::Completed);
}

#[tokio::test]
async fn a_placed_job_without_a_claim_is_placed_again() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    host.kill_daemon();
    // As if the daemon had died between the placement and the launch.
    for pid in runner::pids(&host.run_dir(&job.id)) {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    fs::remove_file(host.records(&job.id).join("runner-1.json")).unwrap();
    fs::remove_dir_all(host.run_dir(&job.id)).unwrap();
    let store = rusqlite::Connection::open(host.path("state/traind.db")).unwrap();
    let reset = "UPDATE jobs SET state = 'starting', log_offset = 0, start_time = NULL";
    assert_eq!(store.execute(reset, []).unwrap(), 1);
    drop(store);

    host.start().await;
    let job = host.until_state(&job.id, JobState::Running).await;
    assert_eq!(job.attempt, 2);
    fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    host.until_state(&job.id, JobState::Completed).await;
}

#[tokio::test]
async fn a_cancellation_survives_the_daemon() {
    let mut host = Host::started(1, STUBBORN).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    host.cancel(&job.id).await.unwrap();
    host.kill_daemon();
    host.start().await;
    host.until_state(&job.id, JobState::Cancelled).await;
    assert!(runner::pids(&host.run_dir(&job.id)).is_empty());
}

#[tokio::test]
async fn sigterm_stops_the_daemon_and_no_job() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    let before = runner::pids(&host.run_dir(&job.id));
    assert_eq!(host.stop_daemon().await, Some(0), "{}", host.log());
    assert!(!host.socket().exists());
    assert_eq!(runner::pids(&host.run_dir(&job.id)), before);
    host.start().await;
    fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    assert_whole(&host.events(&job.id, 1).await);
}

#[tokio::test]
async fn a_watch_ends_with_an_error_when_the_daemon_stops() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let job = host.submit("first", 1).await;
    let request = traind_proto::v1::WatchJobRequest { job_id: job.id, from_sequence: 0 };
    let mut stream = host.jobs().await.watch_job(request).await.unwrap().into_inner();
    stream.message().await.unwrap();
    assert_eq!(host.stop_daemon().await, Some(0), "{}", host.log());
    let status = loop {
        match stream.message().await {
            Ok(event) => assert!(event.is_some(), "the stream ended without an error"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
}

#[tokio::test]
async fn two_daemons_never_share_a_state_folder() {
    let host = Host::started(1, WAITS_FOR_GO).await;
    let mut second = host.traind();
    second.args(["serve", "--socket"]).arg(host.path("other.sock"));
    second.arg("--state-dir").arg(host.path("state")).arg("--runner").arg(host.path("runner"));
    let output = second.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains(&format!("pid {}", host.daemon_pid())), "{text}");
}

#[tokio::test]
async fn a_live_socket_is_refused_and_a_dead_one_replaced() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let mut second = host.traind();
    second.arg("serve").arg("--state-dir").arg(host.path("other"));
    let output = second.arg("--runner").arg(host.path("runner")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("another daemon answers"), "{text}");
    host.kill_daemon();
    until_file(&host.socket()).await;
    host.start().await;
}

#[tokio::test]
async fn a_damaged_store_is_refused() {
    let host = Host::new(1, WAITS_FOR_GO);
    fs::create_dir(host.path("state")).unwrap();
    fs::write(host.path("state/traind.db"), "this is no database, and long enough".repeat(100))
        .unwrap();
    let status = host.serve().status().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(host.log().contains("is damaged"), "{}", host.log());
}

#[tokio::test]
async fn a_lost_store_is_not_replaced_by_an_empty_one() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    host.kill_daemon();
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(host.path(&format!("state/traind.db{suffix}")));
    }
    // An empty file is what file systems leave if data did not reach the disk.
    fs::write(host.path("state/traind.db"), "").unwrap();
    for store in ["empty", "missing"] {
        assert_eq!(host.serve().status().unwrap().code(), Some(1), "{store}");
        let examined = host.cli(&["doctor", "--state-dir", "state"]);
        assert_eq!(examined.status.code(), Some(1), "{examined:?}");
        let _ = fs::remove_file(host.path("state/traind.db"));
    }
    assert!(host.log().contains("traind doctor --rebuild"), "{}", host.log());
    assert!(host.cli(&["doctor", "--state-dir", "state", "--rebuild"]).status.success());
    host.start().await;
    host.until_state(&job.id, JobState::Running).await;
    fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    assert_whole(&host.events(&job.id, 1).await);
}

/// Starts the daemon, which refuses, and rebuilds the store as it says.
async fn refused_and_rebuilt(host: &mut Host, problem: &str) {
    assert_eq!(host.serve().status().unwrap().code(), Some(1));
    let log = host.log();
    assert!(log.contains("traind doctor --rebuild") && log.contains(problem), "{log}");
    let examined = host.cli(&["doctor", "--state-dir", "state"]);
    assert!(String::from_utf8_lossy(&examined.stdout).contains(problem), "{examined:?}");
    let rebuilt = host.cli(&["doctor", "--state-dir", "state", "--rebuild"]);
    assert!(rebuilt.status.success(), "{rebuilt:?}");
    host.start().await;
}

/// The write-ahead log was lost, and with it the newest jobs.
#[tokio::test]
async fn a_store_that_is_older_than_its_jobs_is_refused() {
    let mut host = Host::started(2, WAITS_FOR_GO).await;
    let old = host.submit("old", 1).await;
    host.until(&old.id, |job| job.progress.as_ref().is_some_and(|it| it.step == 20)).await;
    let store = rusqlite::Connection::open(host.path("state/traind.db")).unwrap();
    store.execute("VACUUM INTO ?1", [host.path("older.db").to_str()]).unwrap();
    drop(store);
    let new = host.submit("new", 1).await;
    host.until_state(&new.id, JobState::Running).await;
    let alive = runner::pids(&host.run_dir(&new.id));
    host.kill_daemon();
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(host.path(&format!("state/traind.db{suffix}")));
    }
    fs::copy(host.path("older.db"), host.path("state/traind.db")).unwrap();

    let problem = format!("job {} has a folder and is not in the store", new.id);
    refused_and_rebuilt(&mut host, &problem).await;
    host.until_state(&new.id, JobState::Running).await;
    assert_eq!(runner::pids(&host.run_dir(&new.id)), alive, "the same runner");
    assert_eq!(host.get(&old.id).await.state(), JobState::Running);
}

/// A store that takes a running job for waiting, and a run folder whose user says the same of another job.
#[tokio::test]
async fn a_running_job_that_the_store_takes_for_waiting_is_not_started_again() {
    let mut host = Host::started(2, WAITS_FOR_GO).await;
    let other = host.submit("other", 1).await;
    let job = host.submit("first", 1).await;
    for id in [&other.id, &job.id] {
        host.until_state(id, JobState::Running).await;
    }
    let alive = runner::pids(&host.run_dir(&job.id));
    let cores = host.get(&job.id).await.cores;
    let others = host.get(&other.id).await.cores;
    host.kill_daemon();
    let store = rusqlite::Connection::open(host.path("state/traind.db")).unwrap();
    let back = "UPDATE jobs SET state = 'pending', attempt = 0, cores = '[]' WHERE id = ?1";
    assert_eq!(store.execute(back, [&job.id]).unwrap(), 1);
    drop(store);
    let path = host.run_dir(&job.id).join("run.json");
    let mut spec: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    (spec["job_id"], spec["attempt"]) = (other.id.clone().into(), 0.into());
    spec["cores"] = others.into();
    fs::write(&path, spec.to_string()).unwrap();

    let problem = format!("job {} runs its attempt 1, and the store knows 0", job.id);
    refused_and_rebuilt(&mut host, &problem).await;
    let again = host.until_state(&job.id, JobState::Running).await;
    assert_eq!((again.attempt, runner::pids(&host.run_dir(&job.id))), (1, alive));
    assert_eq!(again.cores, cores, "not those of the other job");
}

/// Records that cannot be restored do not keep the daemon from starting.
#[tokio::test]
async fn unreadable_records_are_set_aside_by_a_rebuild() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let job = host.submit("first", 1).await;
    host.kill_daemon();
    fs::create_dir(host.records("torn")).unwrap();
    fs::write(host.records("torn").join("job.json"), "{\"id\": \"to").unwrap();
    let rebuilt = host.cli(&["doctor", "--state-dir", "state", "--rebuild"]);
    let said = String::from_utf8_lossy(&rebuilt.stdout);
    assert!(said.contains("job torn could not be restored") && said.contains("records.lost"));
    assert!(!host.records("torn").exists());
    host.start().await;
    host.until_state(&job.id, JobState::Running).await;
}

#[tokio::test]
async fn removing_a_run_folder_starts_no_second_runner() {
    let mut host = Host::started_with(1, WAITS_FOR_GO, &["--restart-delay", "0"]).await;
    let job = host.submit_with("first", "cores: 1, max_restarts: 1").await;
    host.until(&job.id, |job| job.progress.is_some()).await;
    let first = runner::pids(&host.run_dir(&job.id));
    host.kill_daemon();
    fs::remove_dir_all(host.run_dir(&job.id)).unwrap();
    host.start().await;
    // The first runner can no longer report: it is killed, and the next one starts over.
    let again = host.until(&job.id, |job| job.attempt == 2).await;
    assert_eq!(again.restarts, 1);
    let now = runner::pids(&host.run_dir(&job.id));
    assert!(now.len() <= 1 && now.iter().all(|pid| !first.contains(pid)), "{first:?} {now:?}");
    host.until_state(&job.id, JobState::Running).await;
    fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    host.until_state(&job.id, JobState::Completed).await;
    let reasons: Vec<String> = state_reasons(&host, &job.id).await;
    let is_expected =
        |reason: &&String| reason.contains("events.log") && reason.contains("was removed");
    assert_eq!(reasons.iter().filter(is_expected).count(), 1, "{reasons:?}");
}

/// The reasons of a job's state changes. Cancels the job.
async fn state_reasons(host: &Host, id: &str) -> Vec<String> {
    let _ = host.cancel(id).await;
    let reasons = host.events(id, 1).await.into_iter().filter_map(|event| match event.kind {
        Some(Kind::StateChanged(changed)) => Some(changed.reason),
        _ => None,
    });
    reasons.collect()
}

#[tokio::test]
async fn a_torn_event_after_a_power_failure_is_not_corruption() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let job = host.submit_with("first", "cores: 1, max_restarts: 1").await;
    host.until(&job.id, |job| job.progress.as_ref().is_some_and(|step| step.step == 20)).await;
    host.kill_daemon();
    for pid in runner::pids(&host.run_dir(&job.id)) {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    // The file was extended, but its data did not reach the disk.
    let log = fs::OpenOptions::new().append(true).open(host.run_dir(&job.id).join("events.log"));
    std::io::Write::write_all(&mut log.unwrap(), &[0; 100]).unwrap();
    host.start().await;
    let job = host.until(&job.id, |job| job.restarts == 1).await;
    assert_eq!(job.failure, None);
}

#[tokio::test]
async fn setting_the_clock_ends_no_job() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let job = host.submit_with("first", "cores: 1, max_run_seconds: 600").await;
    host.until_state(&job.id, JobState::Running).await;
    let waits = host.submit_with("second", "cores: 1, max_wait_seconds: 600").await;
    host.kill_daemon();
    let store = rusqlite::Connection::open(host.path("state/traind.db")).unwrap();
    let earlier = "UPDATE jobs SET place_time = place_time - 3600 * 1000000,
        create_time = create_time - 3600 * 1000000";
    assert_eq!(store.execute(earlier, []).unwrap(), 2);
    drop(store);
    host.start().await;
    // A runner that exceeded its time limit would be stopped before its next event is stored.
    let log = host.run_dir(&job.id).join("events.log");
    let step = fs::read(host.path("frames/step-21")).unwrap();
    let mut log = fs::OpenOptions::new().append(true).open(log).unwrap();
    std::io::Write::write_all(&mut log, &step).unwrap();
    host.until(&job.id, |job| job.progress.as_ref().is_some_and(|step| step.step == 21)).await;
    fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    host.until_state(&job.id, JobState::Completed).await;
    host.until_state(&waits.id, JobState::Running).await;
}
