//! A runner that has to leave saves first; one whose job is cancelled does not.

use traind_proto::v1::JobState;
use traind_tests::{Draft, Host};

use super::{checkpoints, trace, weights};

const STEPS: u64 = 2500;

fn draft(host: &Host, name: &str) -> Draft {
    Draft::new(host, name).set("train.max_steps", STEPS).set("train.save_steps", 100_000)
}

#[tokio::test]
async fn a_drained_job_goes_on_where_it_was() {
    let mut host = Host::started(1).await;
    let whole = draft(&host, "whole");
    host.complete(&whole).await;
    let drained = draft(&host, "drained");
    let job = host.create(&drained).await.unwrap();
    host.until_past(&job.id, 20).await;
    let said = host.cli(drained.folder(), &["drain"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let saved = checkpoints(&drained.output("out"));
    assert_eq!(saved.len(), 1, "{saved:?}");

    host.wait_for_end();
    host.start().await;
    let story = host.watch(&job.id).await;
    assert_eq!(story.job.state(), JobState::Completed, "{}", host.runner_log(&job.id));
    assert_eq!(story.resumed()[0].step, saved[0]);
    // Nothing was done twice.
    let steps: Vec<u64> = story.steps().iter().map(|step| step.step).collect();
    assert_eq!(steps, (1..=STEPS).collect::<Vec<_>>());
    let (whole, drained) = (whole.output("out"), drained.output("out"));
    assert_eq!(trace(&drained), trace(&whole));
    assert_eq!(weights(drained.folder()), weights(whole.folder()));
}

#[tokio::test]
async fn a_cancelled_job_leaves_no_checkpoint() {
    let host = Host::started(1).await;
    let draft = draft(&host, "job").endless();
    let job = host.create(&draft).await.unwrap();
    host.until_past(&job.id, 20).await;
    host.cancel(&job.id).await;
    let story = host.watch(&job.id).await;
    assert_eq!(story.job.state(), JobState::Cancelled);
    assert_eq!(checkpoints(&draft.output("out")), [0; 0]);
}
