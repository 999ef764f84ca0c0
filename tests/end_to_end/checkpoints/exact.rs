//! A run that goes on is the run that never stopped.

use traind_proto::v1::Job;
use traind_tests::{Draft, Host, Story};

use super::{checkpoint, checkpoints, trace, weights};
use crate::tasks::other_jobs;

const STEPS: u64 = 600;
/// No multiple of the steps of an epoch, nor of those between two logs.
const SAVE_STEPS: u64 = 110;

/// Dropout, rows grouped by length, steps of two batches but the last of an epoch,
/// and logs over several steps.
fn draft(host: &Host, name: &str) -> Draft {
    with_all(Draft::new(host, name))
}

fn with_all(draft: Draft) -> Draft {
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

/// Attempts, and after which step each is killed.
type Kills<'a> = &'a [(u32, u64)];

async fn check_killed_runs_equal(
    host: &Host,
    draft: impl Fn(&Host, &str) -> Draft,
    planned: Kills<'_>,
) {
    let whole = draft(host, "whole");
    host.complete(&whole).await;
    let killed = draft(host, "killed");
    let job = host.create(&killed).await.unwrap();
    let mut kills = 0;
    for &(attempt, steps) in planned {
        let past = |job: &Job| job.progress.as_ref().is_some_and(|step| step.step > steps);
        host.until(&job.id, |job| past(job) || job.end_time.is_some()).await;
        // On a busy machine the news of a step may come after the last.
        if host.kill_runner(&job.id, attempt) {
            kills += 1;
            host.until(&job.id, |job| job.attempt > attempt).await;
        }
    }
    let story = host.watch(&job.id).await;
    check_went_on(&story, kills);
    let (whole, killed) = (whole.output("out"), killed.output("out"));
    assert_eq!(trace(&killed), trace(&whole));
    assert_eq!(weights(killed.folder()), weights(whole.folder()));
    assert_eq!(checkpoints(&killed), checkpoints(&whole));
}

/// Attempts after the first went on from checkpoints.
fn check_went_on(story: &Story, kills: usize) {
    assert!(kills > 0, "it was never killed");
    // One that was killed before its first checkpoint was durable began anew.
    let resumed = story.resumed();
    assert!((1..=kills).contains(&resumed.len()), "{:?}", story.chapters());
    for resumed in resumed {
        assert!(resumed.step > 0 && resumed.step.is_multiple_of(SAVE_STEPS), "{resumed:?}");
    }
    assert_eq!(story.finished().steps, STEPS);
}

#[tokio::test]
async fn a_run_that_was_killed_ends_with_the_same_bits() {
    let host = Host::started(1).await;
    check_killed_runs_equal(&host, draft, &[(1, 130), (2, 310)]).await;
}

#[tokio::test]
async fn so_does_one_in_fp16_on_two_cores_with_sharded_optimizer_state() {
    let host = Host::started(2).await;
    let on_two_cores = |host: &Host, name: &str| {
        draft(host, name)
            .set("resources.cores", 2)
            .set("train.fp16", true)
            .set("parallel.shard_optimizer_state", true)
            .set("model.config_overrides", "{intermediate_size: 1024}")
            .set("model.from_config", true)
    };
    check_killed_runs_equal(&host, on_two_cores, &[(1, 130), (2, 310)]).await;
}

/// Masks that are drawn anew each epoch, blocks of texts, windows of contexts.
#[tokio::test]
async fn so_does_one_of_every_other_task() {
    let host = Host::started(1).await;
    for job in other_jobs() {
        let of_task = |host: &Host, name: &str| {
            let draft = with_all(job.draft(host, &format!("{}-{name}", job.task)));
            match job.task {
                "causal-lm" => draft.set(
                    "model.config_overrides",
                    "{resid_pdrop: 0.1, embd_pdrop: 0.1, attn_pdrop: 0.1}",
                ),
                _ => draft,
            }
        };
        check_killed_runs_equal(&host, of_task, &[(1, 200)]).await;
    }
}

/// A later job with more steps, on fewer cores, sees the same rows in the same order.
#[tokio::test]
async fn another_number_of_cores_goes_on_with_the_same_batches() {
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
    let story = host.complete(&one).await;
    assert!(story.warnings("RESUME_INEXACT").is_empty());
    assert_eq!(story.resumed()[0].step, 10);
    assert_eq!(story.steps()[0].step, 11);
    let (one, two) = (one.output("out").trainer_state(), two.output("out").trainer_state());
    let (one, two) = (one.series("loss"), two.series("loss"));
    assert_eq!((one.len(), &one[..10]), (24, &two[..10]));
    for (step, (one, two)) in one.iter().zip(&two).enumerate() {
        assert!((one - two).abs() <= 1e-5 * two.abs(), "step {}: {one}, {two}", step + 1);
    }
}

#[tokio::test]
async fn a_checkpoint_is_a_model_folder() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job").set("train.max_steps", 4).set("train.save_steps", 2);
    let story = host.complete(&draft).await;
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
    let saved = story.saved();
    let steps: Vec<u64> = saved.iter().map(|saved| saved.step).collect();
    assert_eq!(steps, [2, 4, 4]);
    assert!(saved.iter().all(|saved| saved.seconds > 0.0 && saved.bytes > 0));
    assert!(saved[0].stall_seconds > 0.0, "{saved:?}");
}
