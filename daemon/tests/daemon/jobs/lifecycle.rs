//! The life of a job, with every way in which it can end.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use traind_proto::v1::event::Kind;
use traind_proto::v1::{Event, JobState};

use crate::support::host::{Cgroups, Host, lives, until, until_file};
use crate::support::runner::{self, COMPLETES, STEPS, STOPS_WHEN_ASKED, STUBBORN};

/// The states of a job, and the number of steps that it reported.
fn history(events: &[Event]) -> (Vec<JobState>, u64) {
    let mut states = Vec::new();
    let mut steps = 0;
    for event in events {
        match &event.kind {
            Some(Kind::StateChanged(changed)) => states.push(changed.to()),
            Some(Kind::Step(_)) => steps += 1,
            _ => {}
        }
    }
    (states, steps)
}

#[tokio::test]
async fn a_job_runs_and_completes() {
    let host = Host::started(2, COMPLETES).await;
    let job = host.submit("first", 2).await;
    let events = host.events(&job.id, 0).await;
    let sequences: Vec<u64> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (1..=events.len() as u64).collect::<Vec<_>>(), "contiguous");
    let expect =
        [JobState::Pending, JobState::Starting, JobState::Running, JobState::Completed].to_vec();
    assert_eq!(history(&events), (expect, STEPS));

    let job = host.get(&job.id).await;
    assert_eq!(job.state(), JobState::Completed);
    assert_eq!(job.progress.unwrap().step, STEPS);
    assert_eq!(job.metrics["eval_accuracy"], 0.5);
    assert_eq!(job.last_sequence, events.len() as u64);
    assert_eq!((job.attempt, job.cores.len(), job.failure), (1, 0, None));
    assert!(job.start_time.is_some() && job.end_time.is_some());
}

#[tokio::test]
async fn the_runner_gets_its_run_folder_and_a_session_of_its_own() {
    let script = "say started; read -r pid name state ppid pgrp session rest < /proc/$$/stat; \
                  echo \"$pid $pgrp $session $# $1\" > facts; env > environment; say completed";
    let host = Host::new(2, script);
    let mut command = host.serve();
    command.env("A_SECRET", "x");
    let mut daemon = command.spawn().unwrap();
    until_file(&host.socket()).await;
    let job = host.submit("first", 2).await;
    host.until_state(&job.id, JobState::Completed).await;

    let run_dir = host.run_dir(&job.id);
    let facts = std::fs::read_to_string(run_dir.join("facts")).unwrap();
    let facts: Vec<&str> = facts.split_whitespace().collect();
    let pid = facts[0];
    assert_eq!(facts, [pid, pid, pid, "1", run_dir.to_str().unwrap()]);
    let environment = std::fs::read_to_string(run_dir.join("environment")).unwrap();
    assert!(!environment.contains("A_SECRET"), "{environment}");
    let spec = traind_job_file::RunSpec::read(&run_dir).unwrap();
    assert_eq!((spec.job_id, spec.attempt, spec.cores), (job.id, 1, vec![0, 1]));
    assert_eq!(spec.job.output_dir, host.path("out/first"));
    assert_eq!(spec.plugin, host.path("cache/plugins/cpu-0.0.1/xla_cpu_pjrt.so"));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

#[tokio::test]
async fn a_failure_is_the_one_that_the_runner_reported() {
    let host = Host::started(1, "say started; say failed; exit 1").await;
    let job = host.submit("first", 1).await;
    let job = host.until_state(&job.id, JobState::Failed).await;
    let failure = job.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.row), ("DATA_ROW_INVALID", Some(7)));
}

#[tokio::test]
async fn a_failure_of_a_killed_runner_has_its_signal_and_last_lines() {
    let script = "say started; say_steps 1 3; echo 'F001 check failed: x > 0' >&2; kill -ABRT $$";
    let host = Host::started(1, script).await;
    let job = host.submit("first", 1).await;
    let failure = host.until_state(&job.id, JobState::Failed).await.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.step), ("RUNNER_DIED", Some(3)));
    for words in ["signal 6 (SIGABRT)", "check failed: x > 0"] {
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_runner_that_cannot_be_started_delays_its_job_and_holds_no_cores() {
    let host = Host::started_with(1, COMPLETES, &["--restart-delay", "0"]).await;
    let mode = |mode| {
        std::fs::set_permissions(host.path("runner"), Permissions::from_mode(mode)).unwrap();
    };
    mode(0o644);
    let jobs = [host.submit("first", 1).await.id, host.submit("second", 1).await.id];
    for id in &jobs {
        host.until(id, |job| job.waiting_reason.contains("Permission denied")).await;
    }
    mode(0o755);
    for id in &jobs {
        host.until_state(id, JobState::Completed).await;
    }
}

#[tokio::test]
async fn a_damaged_event_log_fails_the_job_and_ends_its_runner() {
    let script = "say started; printf 'this is no frame at all' >> events.log; sleep 60";
    let host = Host::started(1, script).await;
    let job = host.submit("first", 1).await;
    let failure = host.until_state(&job.id, JobState::Failed).await.failure.unwrap();
    assert_eq!(failure.reason, "EVENT_LOG_CORRUPT");
    assert!(runner::pids(&host.run_dir(&job.id)).is_empty());
}

#[tokio::test]
async fn a_cancelled_job_ends_between_two_steps() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    assert_eq!(host.cancel(&job.id).await.unwrap().state(), JobState::Cancelling);
    host.until_state(&job.id, JobState::Cancelled).await;
    // Cancelling again changes nothing.
    let before = host.get(&job.id).await;
    assert_eq!(host.cancel(&job.id).await.unwrap(), before);
}

#[tokio::test]
async fn a_stubborn_runner_is_killed_with_its_children_after_the_grace_period() {
    let script = format!("sleep 1000 & echo $! > child\n{STUBBORN}");
    let host = Host::started(1, &script).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    host.cancel(&job.id).await.unwrap();
    host.until_state(&job.id, JobState::Cancelled).await;
    assert!(runner::pids(&host.run_dir(&job.id)).is_empty());
    let child = std::fs::read_to_string(host.run_dir(&job.id).join("child")).unwrap();
    assert!(!lives(child.trim()), "the runner's child lives");
}

#[tokio::test]
async fn children_of_a_finished_runner_are_killed() {
    let host = Host::started(1, "sleep 1000 & say started; say completed").await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Completed).await;
    let left = runner::pids(&host.run_dir(&job.id));
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_double_fork_ends_with_its_runner() {
    let script = "(setsid sh -c 'echo $$ > child; exec sleep 1000' &)
        say started; until [ -s child ]; do sleep 0.02; done; say completed";
    let mut host = Host::new(1, script);
    let cgroups = Cgroups::make();
    if let Some(cgroups) = &cgroups {
        host.options = vec![format!("--cgroup={}", cgroups.path().display())];
    }
    host.start().await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Completed).await;
    let child = std::fs::read_to_string(host.run_dir(&job.id).join("child")).unwrap();
    assert!(!lives(child.trim()), "the runner's child lives");
    let named = host.records(&job.id).join("cgroup").exists();
    assert_eq!(named, cgroups.is_some(), "a job has a group if groups can be created");
}

/// Each process starts another one and exits, so that no list of processes is ever complete.
#[tokio::test]
async fn processes_that_fork_without_end_die_with_their_job() {
    let Some(cgroups) = Cgroups::make() else {
        eprintln!("not tested: this user may not create control groups");
        return;
    };
    let script = "printf '#!/bin/sh\\necho $$ > newest\\n./chain &\\n' > chain; chmod +x chain
        trap '' TERM INT; say started
        env -u TRAIND_JOB_ID setsid ./chain
        while :; do sleep 0.02; done";
    let mut host = Host::new(1, script);
    host.options = vec![format!("--cgroup={}", cgroups.path().display())];
    host.start().await;
    let job = host.submit("first", 1).await;
    let newest = host.run_dir(&job.id).join("newest");
    let pid = || std::fs::read_to_string(&newest).unwrap_or_default();
    until("the first process", || !pid().is_empty()).await;
    let first = pid();
    until("another process", || !pid().is_empty() && pid() != first).await;
    host.cancel(&job.id).await.unwrap();
    host.until_state(&job.id, JobState::Cancelled).await;
    // A group with processes cannot be removed.
    let group = cgroups.path().join(format!("traind-{}", job.id));
    until("the end of all processes", || !group.exists()).await;
}

#[tokio::test]
async fn a_completed_job_cannot_be_cancelled() {
    let host = Host::started(1, COMPLETES).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Completed).await;
    let status = host.cancel(&job.id).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::FailedPrecondition);
}

#[tokio::test]
async fn events_can_be_watched_from_any_sequence() {
    let host = Host::started(1, COMPLETES).await;
    let job = host.submit("first", 1).await;
    let all = host.events(&job.id, 1).await;
    assert_eq!(host.events(&job.id, 7).await, all[6..]);
    assert_eq!(host.events(&job.id, all.len() as u64 + 1).await, []);
}
