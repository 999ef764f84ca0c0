//! Restarts and retries after failed attempts.

use std::fs;

use traind_proto::v1::{Job, JobState};

use crate::support::host::Host;
use crate::support::runner::{self, COMPLETES, WAITS_FOR_GO};

/// Dies in the first two attempts.
const THIRD_TIME_LUCKY: &str = "
say started; say_steps 1 2
[ -e second ] && { say_steps 3 40; say completed; exit; }
[ -e first ] && touch second
touch first
kill -9 $$";

/// Dies once. The next attempt finds zeros behind the last event, as a machine that goes down leaves
/// them, and takes its time to cut them off. It writes them itself: in the log of a runner that has
/// reported they would be damage.
const TORN: &str = "
if [ -e died ]; then
  end=$(stat -c %s events.log); head -c 64 /dev/zero >> events.log; sleep 1
  truncate -s \"$end\" events.log; say started; say_steps 1 40; say completed; exit
fi
say started; touch died; kill -9 $$";

/// Trains for two steps and then does nothing for ever; hears SIGTERM late.
const HANGS: &str = "say started; say_two_steps; trap '' TERM INT; while :; do sleep 0.1; done";

/// Trains for two steps and then hangs, but handles signals.
const IDLES: &str = "say started; say_two_steps
trap 'say cancelled; exit 3' TERM INT; while :; do sleep 0.1; done";

const AT_ONCE: [&str; 2] = ["--restart-delay", "0"];

#[tokio::test]
async fn a_runner_that_dies_is_restarted_up_to_max_restarts() {
    let host = Host::started_with(1, THIRD_TIME_LUCKY, &AT_ONCE).await;
    let job = host.submit_with("first", "cores: 1, max_restarts: 2").await;
    let job = host.until_state(&job.id, JobState::Completed).await;
    assert_eq!((job.attempt, job.restarts, job.failure), (3, 2, None));
    let claims = |n: u32| host.records(&job.id).join(format!("runner-{n}.json")).exists();
    assert!(claims(1) && claims(2) && claims(3));
    let spec = traind_job_file::RunSpec::read(&host.run_dir(&job.id)).unwrap();
    assert_eq!(spec.attempt, 3);
}

#[tokio::test]
async fn a_job_that_fails_too_often_fails() {
    let host = Host::started_with(1, "say started; kill -9 $$", &AT_ONCE).await;
    let job = host.submit_with("first", "cores: 1, max_restarts: 1").await;
    let job = host.until_state(&job.id, JobState::Failed).await;
    assert_eq!((job.attempt, job.restarts), (2, 1));
    assert_eq!(job.failure.unwrap().reason, "RUNNER_DIED");
}

#[tokio::test]
async fn a_torn_log_is_not_corrupt_before_the_next_runner_truncates_it() {
    let host = Host::started_with(1, TORN, &AT_ONCE).await;
    let job = host.submit_with("first", "cores: 1, max_restarts: 1").await;
    let job = host.until_state(&job.id, JobState::Completed).await;
    assert_eq!((job.attempt, job.failure), (2, None));
}

#[tokio::test]
async fn wrong_data_fails_the_job_at_once() {
    let host = Host::started_with(1, "say started; say failed; exit 1", &AT_ONCE).await;
    let job = host.submit_with("first", "cores: 1, max_restarts: 3").await;
    let job = host.until_state(&job.id, JobState::Failed).await;
    assert_eq!((job.attempt, job.restarts), (1, 0));
}

#[tokio::test]
async fn a_delayed_restart_survives_the_daemon_and_blocks_no_job() {
    let mut host =
        Host::started_with(1, "say started; kill -9 $$", &["--restart-delay", "300"]).await;
    let job = host.submit_with("first", "cores: 1, max_restarts: 1").await;
    host.until(&job.id, |job| job.restarts == 1).await;
    host.kill_daemon();
    fs::remove_dir_all(host.path("frames")).unwrap();
    runner::install(&host.path(""), COMPLETES);
    host.start().await;
    let other = host.submit("second", 1).await;
    host.until_state(&other.id, JobState::Completed).await;
    let job = host.get(&job.id).await;
    let expect = (JobState::Pending, "will be restarted after 300 s (restart 1 of 1)");
    assert_eq!((job.state(), job.waiting_reason.as_str()), expect);
    assert_eq!(host.cancel(&job.id).await.unwrap().state(), JobState::Cancelled);
}

#[tokio::test]
async fn a_runner_that_hangs_is_killed_and_the_failure_names_its_step() {
    let host = Host::started_with(1, HANGS, &["--hang-timeout", "1"]).await;
    let job = host.submit("first", 1).await;
    let failure = host.until_state(&job.id, JobState::Failed).await.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.step), ("RUNNER_HUNG", Some(2)));
    assert!(failure.message.contains("after step 2 on cores [0]"), "{}", failure.message);
    assert!(runner::pids(&host.run_dir(&job.id)).is_empty());
}

#[tokio::test]
async fn a_hung_runner_that_handles_the_signal_is_not_a_cancelled_job() {
    let options = ["--hang-timeout", "1", "--restart-delay", "0"];
    let host = Host::started_with(1, IDLES, &options).await;
    let job = host.submit_with("first", "cores: 1, max_restarts: 1").await;
    let job = host.until_state(&job.id, JobState::Failed).await;
    assert_eq!((job.attempt, job.restarts), (2, 1));
    assert_eq!(job.failure.unwrap().reason, "RUNNER_HUNG");
}

/// Reports a full disk in the first attempt.
const FULL_DISK_ONCE: &str = "
say started; say_steps 1 2
[ -e second ] && { say_steps 3 40; say completed; exit; }
touch second; say disk-full; exit 1";

#[tokio::test]
async fn a_full_disk_does_not_fail_the_job() {
    let host = Host::started_with(1, FULL_DISK_ONCE, &AT_ONCE).await;
    let job = host.submit("first", 1).await;
    let job = host.until_state(&job.id, JobState::Completed).await;
    assert_eq!((job.attempt, job.restarts, job.failure), (2, 0, None));
}

/// Files may be missing for a while, as while an administrator replaces them.
#[tokio::test]
async fn a_plugin_or_runner_that_is_away_for_a_moment_fails_no_job() {
    let host = Host::started_with(1, WAITS_FOR_GO, &AT_ONCE).await;
    let first = host.submit("first", 1).await;
    host.until_state(&first.id, JobState::Running).await;
    let waiting = host.submit("waiting", 1).await;
    fs::rename(host.path("cache/plugins"), host.path("cache/away")).unwrap();
    fs::write(host.run_dir(&first.id).join("go"), "").unwrap();
    host.until_state(&first.id, JobState::Completed).await;
    let reason = |part: &'static str| {
        move |job: &Job| {
            let waits = &job.waiting_reason;
            waits.starts_with("will be retried after") && waits.contains(part)
        }
    };
    host.until(&waiting.id, reason("the cpu plugin is no longer installed")).await;
    fs::rename(host.path("runner"), host.path("older")).unwrap();
    fs::rename(host.path("cache/away"), host.path("cache/plugins")).unwrap();
    host.until(&waiting.id, reason("runner: No such file")).await;
    fs::rename(host.path("older"), host.path("runner")).unwrap();
    let job = host.until_state(&waiting.id, JobState::Running).await;
    assert_eq!((job.restarts, job.failure), (0, None));
    host.cancel(&waiting.id).await.unwrap();
}

#[tokio::test]
async fn a_disk_that_stays_full_eventually_fails_the_job() {
    let mut host = Host::started(1, "say started; say disk-full; exit 1").await;
    let job = host.submit("first", 1).await;
    host.until(&job.id, |job| job.waiting_reason.starts_with("will resume after 5 s")).await;
    host.kill_daemon();
    // The store is as after many such attempts.
    let store = rusqlite::Connection::open(host.path("state/traind.db")).unwrap();
    let later = "UPDATE jobs SET hindered = 20, not_before = 0";
    assert_eq!(store.execute(later, []).unwrap(), 1);
    drop(store);
    host.start().await;
    let job = host.until_state(&job.id, JobState::Failed).await;
    assert_eq!(job.failure.unwrap().reason, "DISK_FULL");
}
