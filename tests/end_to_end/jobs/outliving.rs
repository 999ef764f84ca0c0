//! Jobs outlive the daemon.

use traind_proto::v1::{JobState, Outcome};
use traind_tests::{Draft, Host, alive};

const STEPS: u64 = 40;

#[tokio::test]
async fn a_restarted_daemon_attaches_to_its_running_job() {
    let mut host = Host::started(2).await;
    let draft = Draft::new(&host, "job").set("train.max_steps", STEPS);
    let gate = host.gate("job", 10);
    let job = host.create(&draft).await.unwrap();
    host.until_at(&job.id, &gate).await;

    host.kill_daemon();
    host.start().await;
    let found = host.until_past(&job.id, 9).await;
    assert_eq!((found.state(), found.attempt), (JobState::Running, 1));
    gate.open();
    let history = host.watch(&job.id).await;

    assert_eq!(history.job.state(), JobState::Completed, "{}", host.runner_log(&job.id));
    history.assert_complete();
    history.started(); // and no second runner
    assert_eq!(history.steps().len() as u64, STEPS);
    let state = draft.output("out").trainer_state();
    assert_eq!(state.series("loss").len() as u64, STEPS);
}

#[tokio::test]
async fn a_job_that_ends_without_a_daemon_is_settled_by_the_next() {
    let mut host = Host::started(2).await;
    let draft = Draft::new(&host, "job").set("train.max_steps", STEPS);
    let gate = host.gate("job", 10);
    let job = host.create(&draft).await.unwrap();
    host.until_at(&job.id, &gate).await;
    host.kill_daemon();
    gate.open();
    host.until_runner_exits(&job.id, 1).await;
    host.start().await;
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.state(), JobState::Completed, "{}", host.runner_log(&job.id));
    history.assert_complete();
    assert_eq!(history.steps().len() as u64, STEPS);
}

#[tokio::test]
async fn a_restarted_daemon_cancels_a_job_of_its_predecessor() {
    let mut host = Host::started(2).await;
    let draft = Draft::new(&host, "job").endless();
    let gate = host.gate("job", 10);
    let job = host.create(&draft).await.unwrap();
    host.until_at(&job.id, &gate).await;
    host.kill_daemon();
    host.start().await;
    host.cancel(&job.id).await;
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.state(), JobState::Cancelled);
    assert_eq!(history.finished().outcome(), Outcome::Cancelled);
    assert!(!alive(history.started().pid));
}
