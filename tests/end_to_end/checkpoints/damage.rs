//! Unusable checkpoints, and disks too small for them.

use std::fs;

use traind_tests::{Draft, Host, model};

use super::{checkpoint, checkpoints, weights};

/// Saves after 4, 8 and 12 steps.
fn saving(host: &Host, name: &str) -> Draft {
    Draft::new(host, name).set("train.max_steps", 12).set("train.save_steps", 4)
}

fn flip_a_bit(path: &std::path::Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn the_newest_intact_checkpoint_is_resumed() {
    let host = Host::started(1).await;
    let draft = saving(&host, "job");
    host.complete(&draft).await;
    let trained = weights(&draft.path("out"));
    flip_a_bit(&checkpoint(&draft, 12).join("optimizer.safetensors"));
    fs::remove_file(checkpoint(&draft, 8).join("tokenizer.json")).unwrap();

    let draft = draft.set("train.resume_from_checkpoint", true);
    let history = host.complete(&draft).await;
    let warnings = history.warnings("CHECKPOINT_CORRUPT");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("checkpoint-12") && warnings[0].contains("optimizer.safetensors"));
    assert!(warnings[1].contains("checkpoint-8") && warnings[1].contains("tokenizer.json"));
    assert_eq!(history.resumed()[0].step, 4);
    assert_eq!(weights(&draft.path("out")), trained);

    // The corrupt ones were written again.
    assert_eq!(checkpoints(&draft.output("out")), [4, 8, 12]);
    let history = host.complete(&draft).await;
    assert!(history.warnings("CHECKPOINT_CORRUPT").is_empty());
    assert_eq!((history.resumed()[0].step, history.steps().len()), (12, 0));
    assert_eq!(weights(&draft.path("out")), trained);
}

#[tokio::test]
async fn an_unusable_checkpoint_is_an_error_that_names_it() {
    let host = Host::started(1).await;
    let draft = saving(&host, "job");
    host.complete(&draft).await;
    let folder = checkpoint(&draft, 12);
    let resume =
        |name: &str| Draft::new(&host, name).set("train.resume_from_checkpoint", folder.display());
    let check = async |draft: Draft, reason: &str, words: &[&str]| {
        let failure = host.run(&draft).await.job.failure.unwrap();
        assert_eq!(failure.reason, reason, "{}", failure.message);
        for word in words {
            assert!(failure.message.contains(word), "{}", failure.message);
        }
    };
    let empty = Draft::new(&host, "empty").set("train.resume_from_checkpoint", true);
    check(empty, "CHECKPOINT_NOT_FOUND", &["out"]).await;
    let sgd = resume("sgd").set("train.optim", "sgd");
    check(sgd, "CHECKPOINT_MISMATCH", &["checkpoint-12", "adamw_torch", "sgd"]).await;
    let wider = resume("wider")
        .set("model.config_overrides", "{intermediate_size: 64}")
        .set("model.from_config", true);
    check(wider, "CHECKPOINT_MISMATCH", &["checkpoint-12", "intermediate", "64"]).await;
    let other = resume("family");
    model::write_fixture(&other.path("model"), "distilbert-sequence-classification");
    check(other, "CHECKPOINT_MISMATCH", &["checkpoint-12", "a bert model", "a distilbert"]).await;
    let labels = resume("labels")
        .edit("[animal, fruit, tool]", "{animal: living, fruit: living, tool: made}")
        .set("model.ignore_mismatched_sizes", true);
    check(labels, "CHECKPOINT_MISMATCH", &["checkpoint-12", "classifier", "[3, 16]", "[2, 16]"])
        .await;
    flip_a_bit(&folder.join("model.safetensors"));
    check(resume("flipped"), "CHECKPOINT_CORRUPT", &["checkpoint-12", "model.safetensors"]).await;
    let trainer = Draft::new(&host, "trainer");
    let folder = trainer.path("checkpoint-3");
    fs::create_dir(&folder).unwrap();
    for name in ["model.safetensors", "optimizer.pt", "training_args.bin", "trainer_state.json"] {
        fs::write(folder.join(name), "{}").unwrap();
    }
    let trainer = trainer.set("train.resume_from_checkpoint", folder.display());
    let words = ["checkpoint-3", "another program, such as the Trainer", "model.name_or_path"];
    check(trainer, "CHECKPOINT_CORRUPT", &words).await;
}

#[tokio::test]
async fn a_disk_that_is_too_small_fails_the_job_before_the_first_step() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job")
        .set("model.config_overrides", "{intermediate_size: 4096}")
        .set("model.from_config", true)
        .set("train.train_sampling_strategy", "sequential")
        .set("train.max_steps", 4_000_000_000_u64)
        .set("train.save_steps", 1);
    let history = host.run(&draft).await;
    let failure = history.job.failure.as_ref().unwrap();
    assert_eq!(failure.reason, "DISK_FULL", "{}", failure.message);
    assert!(failure.message.contains("save_total_limit"), "{}", failure.message);
    assert!(history.steps().is_empty());
}
