//! Ending a job before its time.

use traind_proto::v1::{JobState, Outcome};
use traind_tests::{Draft, Host, Story, alive, terminate};

/// The runner ended on its own account, after a whole step.
fn check_stopped(story: &Story) {
    story.assert_whole();
    let (finished, last) = (story.finished(), story.steps().last().unwrap().step);
    assert_eq!((finished.outcome(), finished.steps), (Outcome::Cancelled, last));
    assert_eq!(finished.output_dir, "");
    assert!(!alive(story.started().pid));
}

#[tokio::test]
async fn a_cancelled_job_stops_between_two_steps() {
    let host = Host::started(2).await;
    let draft = Draft::new(&host, "job").endless();
    let job = host.create(&draft).await.unwrap();
    host.until_past(&job.id, 10).await;
    let asked = host.cancel(&job.id).await;
    assert!(matches!(asked.state(), JobState::Cancelling | JobState::Cancelled), "{asked:?}");
    let story = host.watch(&job.id).await;
    assert_eq!(story.job.state(), JobState::Cancelled);
    check_stopped(&story);
    assert!(!draft.path("out/model.safetensors").exists(), "half a training is no model");

    // Its cores and its output folder are free again.
    let next = draft.set("train.max_steps", 2);
    host.complete(&next).await;
}

#[tokio::test]
async fn a_runner_that_others_tell_to_stop_stops_and_is_started_again() {
    let host = Host::started(2).await;
    let draft = Draft::new(&host, "job").endless().set("resources.cores", 2);
    let job = host.create(&draft).await.unwrap();
    host.until_past(&job.id, 10).await;
    let status =
        std::fs::read_to_string(host.path(&format!("state/records/{}/runner-1.json", job.id)));
    let claim: serde_json::Value = serde_json::from_str(&status.unwrap()).unwrap();
    terminate(claim["runner"]["pid"].as_u64().unwrap() as u32);

    host.until(&job.id, |job| job.attempt == 2 && job.state() == JobState::Running).await;
    host.cancel(&job.id).await;
    let story = host.watch(&job.id).await;
    assert_eq!(story.job.state(), JobState::Cancelled);
    let first = story.endings()[0];
    assert_eq!((first.outcome(), first.steps > 10), (Outcome::Cancelled, true), "{first:?}");
}

#[tokio::test]
async fn a_job_is_cancelled_while_it_prepares() {
    let host = Host::started(2).await;
    let draft = Draft::new(&host, "job").endless();
    let job = host.create(&draft).await.unwrap();
    host.until(&job.id, |job| job.state() == JobState::Running).await;
    host.cancel(&job.id).await;
    let story = host.watch(&job.id).await;
    assert_eq!(story.job.state(), JobState::Cancelled);
    assert_eq!(story.finished().outcome(), Outcome::Cancelled);
}
