//! A damaged store is refused, diagnosed, and rebuilt from the job folders.

use std::fs;

use traind_proto::v1::{Job, JobState};

use crate::support::host::Host;
use crate::support::runner::{self, WAITS_FOR_GO};

/// The fields that a rebuild must restore.
fn essence(job: &Job) -> (String, String, String, u32, Option<u64>, String, String) {
    let step = job.progress.as_ref().map(|step| step.step);
    let state = job.state().as_str_name().to_owned();
    let (id, name, file) = (job.id.clone(), job.name.clone(), job.job_file.clone());
    (id, name, state, job.attempt, step, file, job.owner.clone())
}

#[tokio::test]
async fn jobs_are_restored_from_their_folders_including_running_ones() {
    let mut host = Host::started(2, WAITS_FOR_GO).await;
    let completed = host.submit("completed", 1).await;
    host.until_state(&completed.id, JobState::Running).await;
    fs::write(host.run_dir(&completed.id).join("go"), "").unwrap();
    host.until_state(&completed.id, JobState::Completed).await;
    let running = host.submit("running", 2).await;
    host.until(&running.id, |job| job.progress.as_ref().is_some_and(|p| p.step == 20)).await;
    let mut request = host.request("waiting", 1);
    request.request_id = "once".into();
    let waiting = host.create(request.clone()).await.unwrap();
    let cancelled = host.submit("cancelled", 1).await;
    host.cancel(&cancelled.id).await.unwrap();
    let ids = [&completed.id, &running.id, &waiting.id, &cancelled.id];
    let mut before = Vec::new();
    for id in ids {
        before.push(essence(&host.get(id).await));
    }
    let alive = runner::pids(&host.run_dir(&running.id));
    let refused = host.cli(&["doctor", "--state-dir", "state"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("stop it first") && said.matches("another daemon").count() == 1,
        "{said}"
    );
    host.kill_daemon();

    let store = host.path("state/traind.db");
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(host.path(&format!("state/traind.db{suffix}")));
    }
    fs::write(&store, vec![0x5a; 40_000]).unwrap();
    assert_eq!(host.serve().status().unwrap().code(), Some(1));
    assert!(host.log().contains("traind doctor --rebuild"), "{}", host.log());
    let examined = host.cli(&["doctor", "--state-dir", "state"]);
    assert_eq!(examined.status.code(), Some(1), "{examined:?}");
    let rebuilt = host.cli(&["doctor", "--state-dir", "state", "--rebuild"]);
    assert!(rebuilt.status.success(), "{rebuilt:?}");
    assert!(String::from_utf8_lossy(&rebuilt.stdout).contains("4 jobs"), "{rebuilt:?}");
    assert!(host.cli(&["doctor", "--state-dir", "state"]).status.success());

    host.start().await;
    for (id, before) in ids.into_iter().zip(before) {
        host.until(id, |job| essence(job) == before).await;
    }
    assert_eq!(runner::pids(&host.run_dir(&running.id)), alive, "the same runner");
    assert_eq!(host.create(request).await.unwrap().id, waiting.id, "created once");
    fs::write(host.run_dir(&running.id).join("go"), "").unwrap();
    host.until_state(&running.id, JobState::Completed).await;
    fs::write(host.run_dir(&waiting.id).join("go"), "").unwrap();
    host.until_state(&waiting.id, JobState::Completed).await;
}

/// Dies in the first attempt.
const SECOND_TIME_LUCKY: &str = "
say started; say_steps 1 2
[ -e second ] && { say_steps 3 40; say completed; exit; }
touch second; kill -9 $$";

#[tokio::test]
async fn a_job_without_a_folder_is_not_run_again_and_restarts_are_counted() {
    let options = ["--restart-delay", "60"];
    let mut host = Host::started_with(1, SECOND_TIME_LUCKY, &options).await;
    let resting = host.submit_with("resting", "cores: 1, max_restarts: 1").await;
    host.until(&resting.id, |job| job.restarts == 1).await;
    runner::install(&host.path("other"), runner::COMPLETES);
    fs::rename(host.path("other/runner"), host.path("runner")).unwrap();
    fs::rename(host.path("other/frames/completed"), host.path("frames/completed")).unwrap();
    let completed = host.submit("completed", 1).await;
    let completed = host.until_state(&completed.id, JobState::Completed).await;
    let lost = host.submit("lost", 1).await;
    host.until_state(&lost.id, JobState::Completed).await;
    host.kill_daemon();
    fs::remove_dir_all(host.run_dir(&lost.id)).unwrap();
    fs::remove_file(host.path("state/traind.db")).unwrap();
    assert!(host.cli(&["doctor", "--state-dir", "state", "--rebuild"]).status.success());
    assert!(host.cli(&["doctor", "--state-dir", "state"]).status.success());
    host.start().await;
    let again = host.get(&completed.id).await;
    assert_eq!(again.state(), JobState::Completed);
    for (restored, original) in
        [(again.start_time, completed.start_time), (again.end_time, completed.end_time)]
    {
        assert!(restored.unwrap().seconds <= original.unwrap().seconds, "{again:?} {completed:?}");
    }
    // It may have written its output already, and must not do so again.
    let lost = host.get(&lost.id).await;
    assert_eq!((lost.state(), lost.attempt), (JobState::Failed, 1));
    assert!(lost.failure.unwrap().message.contains("was removed"));
    let resting = host.until_state(&resting.id, JobState::Completed).await;
    assert_eq!((resting.attempt, resting.restarts), (2, 1));
}

#[tokio::test]
async fn a_job_missing_from_the_store_is_found() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let job = host.submit("first", 1).await;
    host.stop_daemon().await;
    let store = rusqlite::Connection::open(host.path("state/traind.db")).unwrap();
    store.execute_batch("DELETE FROM events; DELETE FROM jobs").unwrap();
    drop(store);
    let examined = host.cli(&["doctor", "--state-dir", "state"]);
    assert_eq!(examined.status.code(), Some(1), "{examined:?}");
    let said = String::from_utf8_lossy(&examined.stdout).into_owned();
    assert!(
        said.contains(&format!("job {} has a folder and is not in the store", job.id)),
        "{said}"
    );
}
