//! A store that is damaged: refused, examined, and made anew from the job folders.

use std::fs;

use traind_proto::v1::{Job, JobState};

use crate::host::Host;
use crate::runner::{self, WAITS_FOR_GO};

/// What a user would miss.
fn essence(job: &Job) -> (String, String, String, u32, Option<u64>, String, String) {
    let step = job.progress.as_ref().map(|step| step.step);
    let state = job.state().as_str_name().to_owned();
    let (id, name, file) = (job.id.clone(), job.name.clone(), job.job_file.clone());
    (id, name, state, job.attempt, step, file, job.owner.clone())
}

#[tokio::test]
async fn jobs_come_back_from_their_folders_with_the_living_among_them() {
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
    assert_eq!(host.create(request).await.unwrap().id, waiting.id, "made once");
    fs::write(host.run_dir(&running.id).join("go"), "").unwrap();
    host.until_state(&running.id, JobState::Completed).await;
    fs::write(host.run_dir(&waiting.id).join("go"), "").unwrap();
    host.until_state(&waiting.id, JobState::Completed).await;
}
