//! Stopping a job before its end.

use traind_proto::v1::{JobState, Outcome};
use traind_tests::{Draft, History, Host, alive, terminate};

/// Checks that the runner exited by itself after a whole step.
fn check_stopped(history: &History) {
    history.assert_complete();
    let (finished, last) = (history.finished(), history.steps().last().unwrap().step);
    assert_eq!((finished.outcome(), finished.steps), (Outcome::Cancelled, last));
    assert_eq!(finished.output_dir, "");
    assert!(!alive(history.started().pid));
}

#[tokio::test]
async fn a_cancelled_job_stops_between_two_steps() {
    let host = Host::started(2).await;
    let draft = Draft::new(&host, "job").endless();
    let gate = host.gate("job", 10);
    let job = host.create(&draft).await.unwrap();
    host.until_at(&job.id, &gate).await;
    let answer = host.cancel(&job.id).await;
    assert!(matches!(answer.state(), JobState::Cancelling | JobState::Cancelled), "{answer:?}");
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.state(), JobState::Cancelled);
    assert_eq!(history.finished().steps, 10);
    check_stopped(&history);
    gate.open();
    assert!(
        !draft.path("out/model.safetensors").exists(),
        "an incomplete training leaves no model"
    );

    // Its cores and its output folder are available again.
    let next = draft.set("train.max_steps", 2);
    host.complete(&next).await;
}

#[tokio::test]
async fn a_runner_that_receives_sigterm_is_restarted() {
    let host = Host::started(2).await;
    let draft = Draft::new(&host, "job").endless().set("resources.cores", 2);
    let gate = host.gate("job", 10);
    let job = host.create(&draft).await.unwrap();
    host.until_at(&job.id, &gate).await;
    terminate(host.runner_pid(&job.id, 1));

    host.until(&job.id, |job| job.attempt == 2 && job.state() == JobState::Running).await;
    host.cancel(&job.id).await;
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.state(), JobState::Cancelled);
    let first = history.all_finished()[0];
    assert_eq!((first.outcome(), first.steps), (Outcome::Cancelled, 10), "{first:?}");
}

#[tokio::test]
async fn a_job_is_cancelled_while_it_prepares() {
    let host = Host::started(2).await;
    let draft = Draft::new(&host, "job").endless();
    let _gate = host.gate("job", 0);
    let job = host.create(&draft).await.unwrap();
    host.until(&job.id, |job| job.state() == JobState::Running).await;
    host.cancel(&job.id).await;
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.state(), JobState::Cancelled);
    assert_eq!(history.finished().outcome(), Outcome::Cancelled);
}
