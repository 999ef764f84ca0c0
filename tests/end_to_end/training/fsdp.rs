//! Parameters, gradients and state in shards train as on one core, and checkpoints know no shards.

use traind_tests::{Draft, Host};

use super::one_core::{CLASSIFICATION, LANGUAGE_MODEL, STEPS, assert_close, results};

#[tokio::test]
async fn a_classifier_in_shards_trains_as_on_one_core() {
    let (host, job) = (Host::started(4).await, CLASSIFICATION);
    let expect = results(&host, &job.draft(&host, "one", 1, 1, 8)).await;
    assert_eq!(expect.losses.len(), STEPS);
    let two = job.draft(&host, "d2", 2, 1, 4).set("parallel.fsdp", "full_shard");
    results(&host, &two).await.assert_equal(&expect, "D2");
    // Each continues from a checkpoint of the one before.
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

/// Compares a job with more settings on one core with the same in shards on two.
async fn check_on_two(host: &Host, name: &str, settings: &[(&str, &str)]) {
    let job = |cores: u32, fsdp: &str| -> Draft {
        let draft = CLASSIFICATION
            .draft(host, &format!("{name}-{cores}"), cores, 1, 8 / cores)
            .set("parallel.fsdp", fsdp);
        settings.iter().fold(draft, |draft, (field, value)| draft.set(field, *value))
    };
    let one = results(host, &job(1, "no")).await;
    let two = results(host, &job(2, "full_shard")).await;
    assert_eq!(two.losses.len(), STEPS, "{name}");
    assert_close(&format!("{name}: loss"), &two.losses, &one.losses, 2e-3);
    assert_close(&format!("{name}: eval_loss"), &[two.eval_loss], &[one.eval_loss], 2e-3);
}

/// With the loss scale, and the best checkpoint as the model; then with frozen weights in bfloat16
/// beside adapters.
#[tokio::test]
async fn shards_train_in_half_precision_and_beside_adapters() {
    let host = Host::started(2).await;
    let fp16 = [
        ("train.fp16", "true"),
        ("train.eval_strategy", "steps"),
        ("train.eval_steps", "2"),
        ("train.load_best_model_at_end", "true"),
        ("train.learning_rate", "3e-2"),
    ];
    check_on_two(&host, "fp16", &fp16).await;
    let lora = [
        ("peft.method", "lora"),
        ("peft.merge", "true"),
        ("model.dtype", "bfloat16"),
        ("train.bf16", "true"),
        ("train.learning_rate", "1e-3"),
    ];
    check_on_two(&host, "lora", &lora).await;
}
