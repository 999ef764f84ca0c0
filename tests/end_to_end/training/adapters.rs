//! Training of a part of a model: adapters beside frozen weights, and frozen parameters without.

use std::path::Path;

use tonic_types::StatusExt;
use traind_tests::model::Weights;
use traind_tests::{Draft, Host};

const STEPS: u64 = 6;

/// A job with adapters whose B is not zero after a step, dropout on their inputs and DoRA.
fn adapted(host: &Host, name: &str) -> Draft {
    Draft::new(host, name)
        .set("peft.method", "lora")
        .set("peft.r", 4)
        .set("peft.lora_dropout", 0.1)
        .set("peft.use_dora", true)
        .set("train.max_steps", STEPS)
        .set("train.save_steps", 3)
}

fn tensors(file: &Path) -> Vec<String> {
    Weights::read(file.to_owned()).names()
}

/// Adapters and head: the checkpoint has nothing else, and neither has the optimizer.
#[tokio::test]
async fn adapters_alone_are_saved_and_resumed_exactly() {
    let host = Host::started(2).await;
    let whole = adapted(&host, "whole");
    host.complete(&whole).await;
    let output = whole.output("out");
    let names = tensors(&output.folder().join("adapter_model.safetensors"));
    let query = "base_model.model.bert.encoder.layer.0.attention.self.query";
    for part in ["lora_A.weight", "lora_B.weight", "lora_magnitude_vector"] {
        assert!(names.contains(&format!("{query}.{part}")), "{names:?}");
    }
    assert!(names.contains(&"base_model.model.classifier.weight".to_owned()), "{names:?}");
    assert_eq!(names.len(), 2 * 2 * 3 + 2, "{names:?}");
    assert!(!output.names().contains(&"model.safetensors".to_owned()));
    let config = output.json("adapter_config.json");
    assert_eq!(config["base_model_name_or_path"], whole.path("model").display().to_string());
    let slots = tensors(&output.folder().join("checkpoint-3/optimizer.safetensors"));
    assert_eq!(slots.len(), 2 * names.len(), "{slots:?}");

    let checkpoint = output.folder().join("checkpoint-3");
    let resumed =
        adapted(&host, "resumed").set("train.resume_from_checkpoint", checkpoint.display());
    let history = host.complete(&resumed).await;
    assert_eq!(history.resumed()[0].step, 3);
    let adapters = |draft: &Draft| {
        std::fs::read(draft.output("out").folder().join("adapter_model.safetensors")).unwrap()
    };
    assert_eq!(adapters(&resumed), adapters(&whole));

    let two =
        adapted(&host, "two").set("resources.cores", 2).set("train.per_device_train_batch_size", 4);
    host.complete(&two).await;
    let losses = |draft: &Draft| draft.output("out").trainer_state().series("loss");
    for (found, expect) in losses(&two).iter().zip(losses(&whole)) {
        assert!((found - expect).abs() <= 1e-5 * expect, "{found} for {expect}");
    }
}

/// A merged model evaluates as its adapters do, and training continues from adapters.
#[tokio::test]
async fn adapters_start_a_job_and_merge_into_a_model() {
    let host = Host::started(1).await;
    let draft = adapted(&host, "job").set("train.save_strategy", "no");
    host.complete(&draft).await;
    let merged = adapted(&host, "merged").set("train.save_strategy", "no").set("peft.merge", true);
    host.complete(&merged).await;
    let output = merged.output("out");
    assert!(!output.names().contains(&"adapter_config.json".to_owned()));

    let adapter = draft.output("out").folder().to_owned();
    let evaluated = |name: &str| Draft::new(&host, name).set("train.do_train", false);
    let from_adapter = evaluated("adapter")
        .set("peft.method", "lora")
        .set("peft.adapter_name_or_path", adapter.display());
    let from_merged = evaluated("whole").set("model.name_or_path", output.folder().display());
    let (adapter, whole) = (host.complete(&from_adapter).await, host.complete(&from_merged).await);
    let loss = |history: &traind_tests::History| history.finished().metrics["eval_loss"];
    let trained = draft.output("out").trainer_state().series("eval_loss");
    for history in [&adapter, &whole] {
        let (found, expect) = (loss(history), trained[0]);
        assert!((found - expect).abs() <= 1e-5 * expect, "{found} for {expect}");
    }
}

/// Frozen weights stay, and have no optimizer state.
#[tokio::test]
async fn frozen_parameters_stay_as_they_are() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job")
        .set("train.max_steps", 2)
        .set("train.save_steps", 2)
        .set("train.freeze", "[embeddings, encoder.layer.0]");
    host.complete(&draft).await;
    let (before, after) = (draft.path("model"), draft.output("out").folder().to_owned());
    let weights = |folder: &Path| Weights::read(folder.join("model.safetensors"));
    let (before, after) = (weights(&before), weights(&after));
    let slots = tensors(&draft.output("out").folder().join("checkpoint-2/optimizer.safetensors"));
    for name in before.names() {
        let is_frozen = name.contains("embeddings") || name.contains("encoder.layer.0.");
        assert_eq!(before.values(&name) == after.values(&name), is_frozen, "{name}");
        assert_eq!(slots.iter().any(|slot| slot.starts_with(&name)), !is_frozen, "{name}");
    }
    let slip = draft.set("train.freeze", "[embedings]").set("output_dir", "slip");
    let refused = host.create(&slip).await.unwrap_err().get_error_details();
    let violation = &refused.bad_request().unwrap().field_violations[0];
    assert_eq!(violation.field, "train.freeze");
    assert!(violation.description.contains("did you mean embeddings?"), "{violation:?}");
}
