//! The number of cores that share a batch does not change the results.

use traind_tests::{Draft, Host};

const GLOBAL_BATCH: u32 = 8;

/// The losses and gradient norms of every step, with dropout.
async fn curves(host: &Host, cores: u32, sharded: bool) -> (Vec<f64>, Vec<f64>) {
    let draft = Draft::new(host, &format!("cores-{cores}-{sharded}"))
        .with_two_shapes()
        .set("resources.cores", cores)
        .set("train.per_device_train_batch_size", GLOBAL_BATCH / cores)
        .set("train.weight_decay", 0.01)
        .set("parallel.shard_optimizer_state", sharded)
        .set(
            "model.config_overrides",
            "{hidden_dropout_prob: 0.1, attention_probs_dropout_prob: 0.1}",
        );
    host.complete(&draft).await;
    let state = draft.output("out").trainer_state();
    (state.series("loss"), state.series("grad_norm"))
}

fn assert_close(name: &str, found: &[f64], expect: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expect.len(), "{name}");
    for (step, (found, expect)) in found.iter().zip(expect).enumerate() {
        let difference = (found - expect).abs() / expect.abs();
        assert!(difference <= tolerance, "{name} of step {}: {found} for {expect}", step + 1);
    }
}

#[tokio::test]
async fn losses_are_independent_of_the_number_of_cores() {
    let host = Host::started(4).await;
    let (losses, grad_norms) = curves(&host, 1, false).await;
    assert_eq!(losses.len(), 16, "two epochs of 7 full batches and one of 4 rows");
    for (cores, sharded) in [(1, true), (2, true), (4, false)] {
        let name = format!("{cores} cores, optimizer state sharded: {sharded}");
        let (found, norms) = curves(&host, cores, sharded).await;
        assert_close(&format!("{name}: loss"), &found, &losses, 1e-5);
        assert_close(&format!("{name}: grad_norm"), &norms, &grad_norms, 1e-4);
    }
}

#[tokio::test]
async fn dropout_and_the_seed_change_losses() {
    let host = Host::started(1).await;
    let plain = Draft::new(&host, "plain").set("train.max_steps", 4);
    let overrides = "{hidden_dropout_prob: 0.1}";
    let dropout = Draft::new(&host, "dropout").set("train.max_steps", 4);
    let dropout = dropout.set("model.config_overrides", overrides);
    // The order of rows is the same, so that only the dropped values differ.
    let reseeded = dropout.clone().set("train.seed", 43).set("train.data_seed", 42);
    let mut curves = Vec::new();
    for (draft, name) in [(&plain, "a"), (&dropout, "b"), (&reseeded, "c"), (&dropout, "d")] {
        let draft = draft.clone().set("output_dir", name);
        host.complete(&draft).await;
        curves.push(draft.output(name).trainer_state().series("loss"));
    }
    assert_ne!(curves[0], curves[1], "dropout drops nothing");
    assert_ne!(curves[1], curves[2], "dropout ignores the seed");
    assert_eq!(curves[1], curves[3], "the same job twice");
}
