//! The end of the history: `traind gc`, and the daemon's own limits.

use std::fs;
use std::time::{Duration, Instant};

use traind_proto::v1::JobState;

use crate::support::host::{Host, PATIENCE};
use crate::support::runner::WAITS_FOR_GO;

async fn completed(host: &Host, name: &str) -> String {
    let id = host.submit(name, 1).await.id;
    host.until_state(&id, JobState::Running).await;
    fs::write(host.run_dir(&id).join("go"), "").unwrap();
    host.until_state(&id, JobState::Completed).await;
    id
}

fn is_known(host: &Host, id: &str) -> bool {
    host.cli(&["get", id]).status.success()
}

#[tokio::test]
async fn old_jobs_are_removed_and_those_that_others_need_are_not() {
    let mut host = Host::started(1, WAITS_FOR_GO).await;
    let first = completed(&host, "first").await;
    let second = completed(&host, "second").await;
    let third = completed(&host, "third").await;
    let later = host.submit_with("later", &format!("cores: 1, after: {first}")).await.id;
    host.until_state(&later, JobState::Running).await;

    let unlimited = host.cli(&["gc"]);
    assert_eq!(unlimited.status.code(), Some(1), "{unlimited:?}");
    let listed = host.cli(&["gc", "--dry-run", "--keep-jobs", "1"]);
    let text = String::from_utf8_lossy(&listed.stdout);
    assert!(text.contains("would remove 1 job,") && text.contains(&second), "{listed:?}");
    assert!(is_known(&host, &second) && host.run_dir(&second).exists());

    let removed = host.cli(&["gc", "--keep-jobs", "1"]);
    let text = String::from_utf8_lossy(&removed.stdout);
    assert!(text.contains("removed 1 job,") && text.contains(&second), "{removed:?}");
    assert!(!is_known(&host, &second) && !host.run_dir(&second).exists());
    assert!(!host.records(&second).exists());
    assert!(is_known(&host, &first), "the running job came after it");
    assert!(is_known(&host, &third), "the newest one");

    fs::write(host.run_dir(&later).join("go"), "").unwrap();
    host.until_state(&later, JobState::Completed).await;
    host.stop_daemon().await;
    host.options.push("--keep-jobs=1".to_owned());
    host.start().await;
    let start = Instant::now();
    while is_known(&host, &first) || is_known(&host, &third) {
        assert!(start.elapsed() < PATIENCE, "{}", host.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is_known(&host, &later));
    let days = host.cli(&["gc", "--keep-days", "1"]);
    assert!(String::from_utf8_lossy(&days.stdout).contains("removed 0 jobs"), "{days:?}");
}
