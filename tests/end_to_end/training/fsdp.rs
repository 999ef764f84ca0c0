//! Parameters, gradients and state in shards train as on one core, and checkpoints know no shards.

use traind_tests::{Draft, Host};

use super::one_core::{CLASSIFICATION, LANGUAGE_MODEL, STEPS, results};

#[tokio::test]
async fn a_classifier_in_shards_trains_as_on_one_core() {
    let (host, job) = (Host::started(4).await, CLASSIFICATION);
    let expect = results(&host, &job.draft(&host, "one", 1, 1, 8)).await;
    assert_eq!(expect.losses.len(), STEPS);
    let two = job.draft(&host, "d2", 2, 1, 4).set("parallel.fsdp", "full_shard");
    results(&host, &two).await.assert_equal(&expect, "D2");
    // Each goes on from a checkpoint of the one before.
    let four = job
        .draft(&host, "d2-t2", 2, 2, 2)
        .set("train.gradient_accumulation_steps", 2)
        .set("train.gradient_checkpointing", true)
        .set("parallel.fsdp", "full_shard")
        .set("train.resume_from_checkpoint", two.path("out/checkpoint-2").display());
    results(&host, &four).await.assert_equal(&expect, "D2 T2");
    let one = job
        .draft(&host, "one-again", 1, 1, 8)
        .set("train.resume_from_checkpoint", four.path("out/checkpoint-4").display());
    results(&host, &one).await.assert_equal(&expect, "one core after D2 T2");
}

#[tokio::test]
async fn a_language_model_in_shards_trains_as_on_one_core() {
    let (host, job) = (Host::started(4).await, LANGUAGE_MODEL);
    let expect = results(&host, &job.draft(&host, "one", 1, 1, 8)).await;
    let four = job.draft(&host, "d4", 4, 1, 2).set("parallel.fsdp", "full_shard");
    results(&host, &four).await.assert_equal(&expect, "D4");
    let two = job
        .draft(&host, "d2", 2, 1, 2)
        .set("train.gradient_accumulation_steps", 2)
        .set("parallel.fsdp", "shard_grad_op")
        .set("train.resume_from_checkpoint", four.path("out/checkpoint-2").display());
    results(&host, &two).await.assert_equal(&expect, "D2");
}

/// The losses of a job with more settings, on one core and in shards on two.
async fn losses(host: &Host, name: &str, settings: &[(&str, &str)]) -> [Vec<f64>; 2] {
    let job = |cores: u32, fsdp: &str| -> Draft {
        let draft = CLASSIFICATION
            .draft(host, &format!("{name}-{cores}"), cores, 1, 8 / cores)
            .set("parallel.fsdp", fsdp);
        settings.iter().fold(draft, |draft, (field, value)| draft.set(field, *value))
    };
    let one = results(host, &job(1, "no")).await.losses;
    [one, results(host, &job(2, "full_shard")).await.losses]
}

fn assert_close(name: &str, [one, sharded]: [Vec<f64>; 2], tolerance: f64) {
    assert_eq!(one.len(), STEPS, "{name}");
    for (one, sharded) in one.iter().zip(&sharded) {
        assert!((one - sharded).abs() <= tolerance * one.abs(), "{name}: {one}, {sharded}");
    }
}

/// The loss scale, half precision, and frozen weights in bfloat16 beside adapters.
#[tokio::test]
async fn shards_train_in_half_precision_and_beside_adapters() {
    let host = Host::started(2).await;
    let fp16 = losses(&host, "fp16", &[("train.fp16", "true")]).await;
    assert_close("fp16", fp16, 2e-3);
    let lora = [
        ("peft.method", "lora"),
        ("peft.merge", "true"),
        ("model.dtype", "bfloat16"),
        ("train.bf16", "true"),
        ("train.learning_rate", "1e-3"),
    ];
    assert_close("lora", losses(&host, "lora", &lora).await, 2e-3);
}
