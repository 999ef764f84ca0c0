//! Jobs on the twin as users run them: they watch cores, lose runners, drain the daemon and cancel.

use traind_proto::v1::JobState;
use traind_tests::{Draft, Host};

use crate::installed;

fn draft(host: &Host, name: &str) -> Draft {
    Draft::new(host, name)
        .set("resources.platform", "neuron")
        .set("model.config_overrides", "{num_hidden_layers: 1, hidden_dropout_prob: 0.1}")
        .set("train.max_steps", 6)
        .set("train.save_steps", 2)
}

fn weights(draft: &Draft) -> Vec<u8> {
    std::fs::read(draft.path("out/model.safetensors")).unwrap()
}

async fn assert_no_core_is_held(host: &Host) {
    let cores = host.cores().await;
    assert!(cores.iter().all(|core| core.job_id.is_empty()), "{cores:?}");
}

/// Shown by `traind cores`, killed with its runner, then drained with the daemon: the bits are those of an undisturbed
/// job.
#[tokio::test]
async fn a_killed_and_drained_job_ends_with_the_same_bits() {
    let mut host = installed::host(1, "trn1.2xlarge", "").await;
    let whole = draft(&host, "whole");
    host.complete(&whole).await;

    let disturbed = draft(&host, "disturbed").set("resources.max_restarts", 1);
    let killed = host.gate("disturbed", 3);
    let drained = host.gate("disturbed", 5);
    let job = host.create(&disturbed).await.unwrap();
    host.until_at(&job.id, &killed).await;
    let cores = host.cli(disturbed.folder(), &["cores"]);
    assert_eq!(cores.code, Some(0), "{cores:?}");
    assert!(cores.stdout.contains("Trainium1") && cores.stdout.contains(&job.id), "{cores:?}");
    let saved = disturbed.path("out/checkpoint-2/manifest.json");
    traind_tests::until("the checkpoint is whole", || saved.exists()).await;
    assert!(host.kill_runner(&job.id, 1));
    killed.open();
    host.until_at(&job.id, &drained).await;
    let output = host.cli(disturbed.folder(), &["drain"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    host.wait_for_end().await;
    drained.open();
    host.start().await;
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.state(), JobState::Completed, "{:?}", history.job);
    assert_eq!(history.resumed().len(), 2, "{:?}", history.event_names());
    assert_eq!(weights(&disturbed), weights(&whole));
    assert_no_core_is_held(&host).await;
}

#[test]
fn the_doctor_executes_the_compiler() {
    let host = installed::stopped_host(1, "trn1.2xlarge", "");
    let mut command = host.traind();
    command.args(["doctor", "--platform", "neuron"]);
    command.envs(installed::environment(&host, "instance=trn1.2xlarge"));
    let output = traind_tests::CommandOutput::of(command.output().unwrap());
    assert!(output.stdout.contains("NeuronX Compiler version 2.27.5334"), "{output:?}");
}

/// A compile takes minutes: it ends with the job that is cancelled, and so does the compiler.
#[tokio::test]
async fn a_job_is_cancelled_in_the_middle_of_a_compile() {
    let host = installed::cold_host(1, "trn1.2xlarge", "compile_ms=3600000").await;
    let job = host.create(&draft(&host, "slow")).await.unwrap();
    let started = host.path("twin/locks/compiling");
    traind_tests::until("the compiler starts", || started.exists()).await;
    host.cancel(&job.id).await;
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.state(), JobState::Cancelled, "{:?}", history.job);
    let pid: u32 = std::fs::read_to_string(started).unwrap().trim().parse().unwrap();
    traind_tests::until("the compiler ends", || !traind_tests::alive(pid)).await;
    assert_no_core_is_held(&host).await;
}
