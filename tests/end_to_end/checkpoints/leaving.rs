//! A drained runner saves a checkpoint before it exits; a cancelled one does not.

use traind_proto::v1::JobState;
use traind_tests::{Draft, Gate, History, Host};

use super::{checkpoints, trace, weights};

const STEPS: u64 = 50;
const STOP_STEP: u64 = 21;

fn draft(host: &Host, name: &str) -> Draft {
    Draft::new(host, name).set("train.max_steps", STEPS).set("train.save_steps", 100_000)
}

/// Follows a drained job to its end after a restart of the daemon, with its gate open.
async fn resumed(host: &mut Host, id: &str, gate: Gate) -> History {
    host.wait_for_end().await;
    gate.open();
    host.start().await;
    let history = host.watch(id).await;
    assert_eq!(history.job.state(), JobState::Completed, "{}", host.runner_log(id));
    assert_eq!(history.resumed()[0].step, STOP_STEP);
    history
}

#[tokio::test]
async fn a_drained_job_resumes_where_it_stopped() {
    let mut host = Host::started(1).await;
    let whole = draft(&host, "whole");
    host.complete(&whole).await;
    let drained = draft(&host, "drained");
    let gate = host.gate("drained", STOP_STEP);
    let job = host.create(&drained).await.unwrap();
    host.until_at(&job.id, &gate).await;
    let output = host.cli(drained.folder(), &["drain"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(checkpoints(&drained.output("out")), [STOP_STEP]);

    let history = resumed(&mut host, &job.id, gate).await;
    // No step was repeated.
    let steps: Vec<u64> = history.steps().iter().map(|step| step.step).collect();
    assert_eq!(steps, (1..=STEPS).collect::<Vec<_>>());
    let (whole, drained) = (whole.output("out"), drained.output("out"));
    assert_eq!(trace(&drained), trace(&whole));
    assert_eq!(weights(drained.folder()), weights(whole.folder()));
}

#[tokio::test]
async fn a_cancelled_job_leaves_no_checkpoint() {
    let host = Host::started(1).await;
    let draft = draft(&host, "job").endless();
    let gate = host.gate("job", STOP_STEP);
    let job = host.create(&draft).await.unwrap();
    host.until_at(&job.id, &gate).await;
    host.cancel(&job.id).await;
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.state(), JobState::Cancelled);
    assert_eq!(checkpoints(&draft.output("out")), [0; 0]);
}

#[tokio::test]
async fn a_drained_job_that_saves_only_models_resumes_from_a_whole_checkpoint() {
    let mut host = Host::started(1).await;
    let [whole, drained] = ["whole", "drained"].map(|name| {
        draft(&host, name).set("train.save_only_model", true).set("train.save_steps", 10)
    });
    host.complete(&whole).await;
    let gate = host.gate("drained", STOP_STEP);
    let job = host.create(&drained).await.unwrap();
    host.until_at(&job.id, &gate).await;
    assert_eq!(host.cli(drained.folder(), &["drain"]).code, Some(0));
    assert_eq!(checkpoints(&drained.output("out")), [10, 20, STOP_STEP]);
    let resumes = |step: u64| {
        let folder = drained.path(&format!("out/checkpoint-{step}"));
        let files = ["optimizer.safetensors", "training_state.json"];
        assert!(
            folder.join("model.safetensors").exists() && folder.join("trainer_state.json").exists()
        );
        files.map(|name| folder.join(name).exists())
    };
    assert_eq!([20, STOP_STEP].map(resumes), [[false; 2], [true; 2]]);

    resumed(&mut host, &job.id, gate).await;
    let (whole, drained) = (whole.output("out"), drained.output("out"));
    assert_eq!(weights(drained.folder()), weights(whole.folder()));
}
