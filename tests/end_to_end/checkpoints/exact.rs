//! A resumed run equals an uninterrupted one.

use std::fs;

use traind_tests::{Draft, Gate, History, Host};

use super::{checkpoint, checkpoints, trace, until_durable, weights};
use crate::tasks::{image_draft, other_jobs};
use crate::training::{packed_draft, pairs_draft, with_reference};

const STEPS: u64 = 60;
/// The steps between checkpoints, neither a multiple of the steps of an epoch nor of `logging_steps`.
const SAVE_STEPS: u64 = 11;

/// A job with dropout, rows grouped by length, two batches per step except the last of an epoch, and
/// logs over several steps.
fn draft(host: &Host, name: &str) -> Draft {
    with_everything(Draft::new(host, name))
}

fn with_everything(draft: Draft) -> Draft {
    draft
        .set(
            "model.config_overrides",
            "{hidden_dropout_prob: 0.1, attention_probs_dropout_prob: 0.1}",
        )
        .set("train.learning_rate", 1e-3)
        .set("train.train_sampling_strategy", "group_by_length")
        .set("train.per_device_train_batch_size", 4)
        .set("train.gradient_accumulation_steps", 2)
        .set("train.logging_steps", 7)
        .set("train.max_steps", STEPS)
        .set("train.save_steps", SAVE_STEPS)
        .set("train.save_total_limit", 2)
        .set("resources.max_restarts", 20)
}

/// Kills the attempts of a job, each after one of the `kills` steps, and compares the result with an
/// uninterrupted run.
async fn check_killed_runs_equal(host: &Host, draft: impl Fn(&Host, &str) -> Draft, kills: &[u64]) {
    let whole = draft(host, "whole");
    host.complete(&whole).await;
    let killed = draft(host, "killed");
    let gates: Vec<Gate> =
        kills.iter().map(|step| host.gate(&killed.overrides["name"], *step)).collect();
    let job = host.create(&killed).await.unwrap();
    for (attempt, gate) in (1..).zip(gates) {
        host.until_at(&job.id, &gate).await;
        until_durable(&killed, last_save(gate.step())).await;
        assert!(host.kill_runner(&job.id, attempt));
        gate.open();
        host.until(&job.id, |job| job.attempt > attempt).await;
    }
    let history = host.watch(&job.id).await;
    check_resumed(&history, kills);
    let (whole, killed) = (whole.output("out"), killed.output("out"));
    assert_eq!(trace(&killed), trace(&whole));
    assert_eq!(weights(killed.folder()), weights(whole.folder()));
    assert_eq!(checkpoints(&killed), checkpoints(&whole));
}

/// The last step up to `step` after which a checkpoint is written.
fn last_save(step: u64) -> u64 {
    step - step % SAVE_STEPS
}

/// Checks that each attempt after the first resumed from the newest checkpoint.
fn check_resumed(history: &History, kills: &[u64]) {
    let resumed: Vec<u64> = history.resumed().iter().map(|resumed| resumed.step).collect();
    let expect: Vec<u64> = kills.iter().map(|step| last_save(*step)).collect();
    assert_eq!(resumed, expect, "{:?}", history.event_names());
    assert_eq!(history.finished().steps, STEPS);
}

#[tokio::test]
async fn a_killed_run_ends_with_the_same_bits() {
    let host = Host::started(1).await;
    // Each evaluation but the first lowers the rate.
    let plateau = |host: &Host, name: &str| {
        draft(host, name)
            .set("train.neftune_noise_alpha", 5)
            .set("train.eval_strategy", "steps")
            .set("train.eval_steps", 10)
            .set("train.lr_scheduler_type", "reduce_lr_on_plateau")
            .set(
                "train.lr_scheduler_kwargs",
                "{patience: 0, factor: 0.9, threshold: 1, threshold_mode: abs}",
            )
    };
    check_killed_runs_equal(&host, plateau, &[13, 31]).await;
}

#[tokio::test]
async fn a_killed_run_in_shards_on_two_cores_ends_with_the_same_bits() {
    let host = Host::started(2).await;
    for (fsdp, fp16, kills) in
        [("shard_optimizer", true, &[13, 31][..]), ("full_shard", false, &[13])]
    {
        let on_two_cores = |host: &Host, name: &str| {
            draft(host, &format!("{fsdp}-{name}"))
                .set("resources.cores", 2)
                .set("train.fp16", fp16)
                .set("parallel.fsdp", fsdp)
                .set("model.config_overrides", "{intermediate_size: 1024}")
                .set("model.from_config", true)
        };
        check_killed_runs_equal(&host, on_two_cores, kills).await;
    }
}

#[tokio::test]
async fn a_killed_run_in_a_pipeline_ends_with_the_same_bits() {
    let host = Host::started(2).await;
    let in_stages = |host: &Host, name: &str| {
        draft(host, name)
            .set("resources.cores", 2)
            .set("parallel.pipeline", 2)
            .set("train.fp16", true)
            .set("train.neftune_noise_alpha", 5)
            .set("train.per_device_train_batch_size", 4)
    };
    check_killed_runs_equal(&host, in_stages, &[13]).await;
}

/// Every task resumes with the same bits, also with masks that are redrawn every epoch, blocks of text and windows of
/// contexts.
#[tokio::test]
async fn a_killed_run_of_every_other_task_ends_with_the_same_bits() {
    let host = Host::started(1).await;
    for job in other_jobs() {
        let of_task = |host: &Host, name: &str| {
            // Few lengths, as each is compiled.
            let draft = with_everything(job.draft(host, &format!("{}-{name}", job.task)))
                .set("data.pad_to_multiple_of", 8);
            match job.task {
                "causal-lm" => draft.set(
                    "model.config_overrides",
                    "{resid_pdrop: 0.1, embd_pdrop: 0.1, attn_pdrop: 0.1}",
                ),
                "seq2seq-lm" => draft.set("model.config_overrides", "{dropout_rate: 0.1}"),
                _ => draft,
            }
        };
        check_killed_runs_equal(&host, of_task, &[20]).await;
    }
}

/// Crops and flips are drawn anew every epoch, as is the dropout of adapters.
#[tokio::test]
async fn a_killed_run_on_images_ends_with_the_same_bits() {
    let host = Host::started(1).await;
    let all_weights = |host: &Host, name: &str| {
        let draft = with_everything(image_draft(host, &format!("all-{name}")));
        draft.set("train.train_sampling_strategy", "random")
    };
    check_killed_runs_equal(&host, all_weights, &[13]).await;
    let adapters = |host: &Host, name: &str| {
        with_everything(image_draft(host, &format!("adapters-{name}")))
            .set("train.train_sampling_strategy", "random")
            .set("peft.method", "lora")
            .set("peft.target_modules", "[q_proj, fc1]")
            .set("peft.lora_dropout", 0.1)
    };
    check_killed_runs_equal(&host, adapters, &[31]).await;
}

fn of_llama(draft: Draft) -> Draft {
    with_everything(draft)
        .set("train.train_sampling_strategy", "random")
        .set("train.per_device_train_batch_size", 2)
        .set("train.learning_rate", 1e-2)
        .set("model.config_overrides", "{attention_dropout: 0.1}")
}

fn pairs(host: &Host, name: &str) -> Draft {
    let draft = of_llama(pairs_draft(host, &format!("pairs-{name}")));
    // Without dropout, two runs would draw nothing.
    draft.set("dpo.disable_dropout", false)
}

/// Packed rows, and pairs beside a reference, which a resumed run reads again: the model folder, or another model.
#[tokio::test]
async fn a_killed_run_on_conversations_ends_with_the_same_bits() {
    let host = Host::started(1).await;
    let packed = |host: &Host, name: &str| of_llama(packed_draft(host, &format!("packed-{name}")));
    check_killed_runs_equal(&host, packed, &[13]).await;
    check_killed_runs_equal(&host, pairs, &[31]).await;
    let named = |host: &Host, name: &str| with_reference(pairs(host, &format!("named-{name}")));
    check_killed_runs_equal(&host, named, &[13]).await;
}

/// Each stage reads its part of the reference again.
#[tokio::test]
async fn a_killed_run_on_pairs_in_stages_ends_with_the_same_bits() {
    let host = Host::started(4).await;
    let in_stages = |host: &Host, name: &str| {
        let draft = pairs(host, &format!("stages-{name}"));
        draft.set("resources.cores", 2).set("parallel.pipeline", 2)
    };
    check_killed_runs_equal(&host, in_stages, &[13]).await;
    let in_shards = |host: &Host, name: &str| {
        with_reference(in_stages(host, &format!("named-{name}")))
            .set("resources.cores", 4)
            .set("parallel.fsdp", "full_shard")
    };
    check_killed_runs_equal(&host, in_shards, &[31]).await;
}

/// A later job on fewer cores sees the same rows in the same order.
#[tokio::test]
async fn another_number_of_cores_resumes_with_the_same_batches() {
    let host = Host::started(2).await;
    let wide = |name: &str| {
        Draft::new(&host, name)
            .set("train.max_steps", 24)
            .set("train.save_steps", 10)
            .set("train.learning_rate", 1e-3)
            .set("model.config_overrides", "{intermediate_size: 1024, hidden_dropout_prob: 0.1}")
            .set("model.from_config", true)
    };
    let two = wide("two")
        .set("resources.cores", 2)
        .set("train.per_device_train_batch_size", 4)
        .set("parallel.shard_optimizer_state", true);
    host.complete(&two).await;
    let one = wide("one").set("train.resume_from_checkpoint", checkpoint(&two, 10).display());
    let history = host.complete(&one).await;
    assert!(history.warnings("RESUME_INEXACT").is_empty());
    assert_eq!(history.resumed()[0].step, 10);
    assert_eq!(history.steps()[0].step, 11);
    let (one, two) = (one.output("out").trainer_state(), two.output("out").trainer_state());
    let (one, two) = (one.series("loss"), two.series("loss"));
    assert_eq!((one.len(), &one[..10]), (24, &two[..10]));
    for (step, (one, two)) in one.iter().zip(&two).enumerate() {
        assert!((one - two).abs() <= 1e-5 * two.abs(), "step {}: {one}, {two}", step + 1);
    }
}

#[tokio::test]
async fn other_training_data_of_as_many_rows_are_reported() {
    let host = Host::started(1).await;
    let short =
        |name: &str| Draft::new(&host, name).set("train.max_steps", 4).set("train.save_steps", 2);
    let first = short("first");
    host.complete(&first).await;
    let csv = fs::read_to_string(first.path("train.csv")).unwrap();
    let (header, rows) = csv.split_once('\n').unwrap();
    let reversed: Vec<&str> = rows.lines().rev().collect();
    let other = short("other")
        .write("train.csv", format!("{header}\n{}\n", reversed.join("\n")))
        .set("train.resume_from_checkpoint", checkpoint(&first, 2).display());
    let history = host.complete(&other).await;
    let warnings = history.warnings("RESUME_INEXACT");
    assert!(warnings[0].contains("content of the training data"), "{warnings:?}");
    assert_eq!(warnings.len(), 1);
}

#[tokio::test]
async fn a_checkpoint_is_a_model_folder() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job").set("train.max_steps", 4).set("train.save_steps", 2);
    let history = host.complete(&draft).await;
    let output = draft.output("out");
    assert_eq!(checkpoints(&output), [2, 4]);
    let last = draft.output("out/checkpoint-4");
    let expect = [
        "config.json",
        "manifest.json",
        "model.safetensors",
        "optimizer.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "trainer_state.json",
        "training_state.json",
    ];
    assert_eq!(last.names(), expect);
    assert_eq!(weights(last.folder()), weights(output.folder()));
    assert_eq!(last.json("manifest.json")["step"], 4);
    assert_eq!(last.trainer_state().0["global_step"], 4);
    let saved = history.saved();
    let steps: Vec<u64> = saved.iter().map(|saved| saved.step).collect();
    assert_eq!(steps, [2, 4, 4]);
    assert!(saved.iter().all(|saved| saved.seconds > 0.0 && saved.bytes > 0));
    assert!(saved[0].stall_seconds > 0.0, "{saved:?}");
}
