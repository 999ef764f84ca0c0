//! Jobs outlive the daemon.

use traind_proto::v1::{JobState, Outcome};
use traind_tests::{Draft, Host, alive};

const STEPS: u64 = 4000;

#[tokio::test]
async fn a_killed_daemon_finds_its_running_job_again() {
    let mut host = Host::started(2).await;
    let draft = Draft::new(&host, "job").set("train.max_steps", STEPS);
    let job = host.create(&draft).await.unwrap();
    host.until_past(&job.id, 0).await;

    host.kill_daemon();
    host.start().await;
    let found = host.until_past(&job.id, 0).await;
    assert_eq!((found.state(), found.attempt), (JobState::Running, 1));
    let story = host.watch(&job.id).await;

    assert_eq!(story.job.state(), JobState::Completed, "{}", host.runner_log(&job.id));
    story.assert_whole();
    story.started(); // and no second runner
    assert_eq!(story.steps().len() as u64, STEPS);
    let state = draft.output("out").trainer_state();
    assert_eq!(state.series("loss").len() as u64, STEPS);
}

#[tokio::test]
async fn a_job_that_ends_while_there_is_no_daemon_is_settled_by_the_next() {
    let mut host = Host::started(2).await;
    let draft = Draft::new(&host, "job").set("train.max_steps", 1000);
    let job = host.create(&draft).await.unwrap();
    host.until(&job.id, |job| job.state() == JobState::Running).await;
    host.kill_daemon();
    let saved = draft.path("out/trainer_state.json");
    while !saved.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    host.start().await;
    let story = host.watch(&job.id).await;
    assert_eq!(story.job.state(), JobState::Completed, "{}", host.runner_log(&job.id));
    story.assert_whole();
    assert_eq!(story.steps().len(), 1000);
}

#[tokio::test]
async fn a_daemon_cancels_a_job_of_the_one_before() {
    let mut host = Host::started(2).await;
    let draft = Draft::new(&host, "job").endless();
    let job = host.create(&draft).await.unwrap();
    host.until_past(&job.id, 0).await;
    host.kill_daemon();
    host.start().await;
    host.cancel(&job.id).await;
    let story = host.watch(&job.id).await;
    assert_eq!(story.job.state(), JobState::Cancelled);
    assert_eq!(story.finished().outcome(), Outcome::Cancelled);
    assert!(!alive(story.started().pid));
}
