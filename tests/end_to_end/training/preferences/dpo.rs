//! Preference pairs beside TRL's: `scripts/fixtures/dpo.py` writes the rows and what DPOTrainer logs of them.

use std::fs;

use serde_json::Value;
use tonic_types::StatusExt;
use traind_proto::reasons;
use traind_tests::{Draft, Host};

use crate::training::sft::{draft, fixture, lines, repository, set_all};

/// The largest differences, relative to the value and 1: at the first step, whose weights are the same, and later.
const LIMIT_FIRST: f64 = 1e-5;
const LIMIT: f64 = 1e-4;

/// The job of one of the fixture's runs, which evaluates the first pairs at its end.
pub(crate) fn pairs(host: &Host, name: &str, fixture: &Value, run: &str) -> Draft {
    let validation = lines(&fixture["rows"].as_array().unwrap()[..8]);
    let draft = draft(host, name, "dpo", fixture)
        .write("validation.jsonl", validation)
        .set("data.validation", "validation.jsonl");
    set_all(draft, "dpo", &fixture["runs"][run]["dpo"])
}

/// The job with the model of the fixture's run `reference` as its reference.
pub(crate) fn with_reference(draft: Draft) -> Draft {
    let folder = draft.path("reference");
    fs::create_dir(&folder).unwrap();
    for name in ["config.json", "model.safetensors"] {
        let from = repository().join("daemon/runner/fixtures/dpo/reference").join(name);
        fs::copy(from, folder.join(name)).unwrap();
    }
    draft.set("dpo.ref_model_name_or_path", "./reference")
}

/// Compares the log with TRL's, entry by entry.
fn check(draft: &Draft, fixture: &Value, run: &str) {
    let state = draft.output("out").trainer_state();
    let ours = [state.history("loss"), state.history("eval_loss")].concat();
    let expected = fixture["runs"][run]["history"].as_array().unwrap();
    assert_eq!(ours.len(), expected.len());
    for (step, (ours, expected)) in ours.iter().zip(expected).enumerate() {
        let limit = if step == 0 { LIMIT_FIRST } else { LIMIT };
        // Before the first update both rewards are 0 but for rounding, which decides the larger.
        let is_compared = |name: &str| step > 0 || name != "rewards/accuracies";
        check_entry(ours, expected, is_compared, limit, &format!("entry {step} of {run}"));
    }
}

/// Compares the metrics of an entry of the log with TRL's, relative to the value and 1.
pub(super) fn check_entry(
    ours: &Value,
    expected: &Value,
    is_compared: impl Fn(&str) -> bool,
    limit: f64,
    entry: &str,
) {
    for (name, expect) in expected.as_object().unwrap().iter().filter(|it| is_compared(it.0)) {
        let (found, expect) = (ours[name].as_f64().unwrap(), expect.as_f64().unwrap());
        let difference = (found - expect).abs() / (1.0 + expect.abs());
        assert!(difference <= limit, "{name} of {entry}: {found}, TRL's is {expect}");
    }
}

/// On two cores, and again from a checkpoint with as many pairs in two batches on one core. The reference is
/// the model folder's in both, not the checkpoint's.
#[tokio::test]
async fn losses_rewards_and_evaluations_are_those_of_trl() {
    let fixture = fixture("dpo/dpo.json");
    let host = Host::started(2).await;
    let job = |name: &str| {
        let draft = pairs(&host, name, &fixture, "sigmoid");
        let draft = draft.set("train.per_device_train_batch_size", 2);
        draft.set("train.save_strategy", "steps").set("train.save_steps", 2)
    };
    let two_cores = job("first").set("resources.cores", 2);
    host.complete(&two_cores).await;
    check(&two_cores, &fixture, "sigmoid");
    let resumed = job("resumed")
        .set("train.gradient_accumulation_steps", 2)
        .set("train.resume_from_checkpoint", two_cores.path("out/checkpoint-2").display());
    host.complete(&resumed).await;
    check(&resumed, &fixture, "sigmoid");
}

/// Another model as the reference, which computes by its own config: at the first step, the losses are not those of
/// equal models. Adapters change nothing at that step.
#[tokio::test]
async fn another_reference_is_compared_with_as_by_trl() {
    let fixture = fixture("dpo/dpo.json");
    let host = Host::started(2).await;
    let job = |name: &str| {
        let draft = with_reference(pairs(&host, name, &fixture, "reference"));
        let draft = draft.set("train.per_device_train_batch_size", 2);
        draft.set("train.save_strategy", "steps").set("train.save_steps", 2)
    };
    let two_cores = job("first").set("resources.cores", 2).set("parallel.fsdp", "full_shard");
    host.complete(&two_cores).await;
    check(&two_cores, &fixture, "reference");
    let first = two_cores.output("out").trainer_state().series("loss")[0];
    assert!((first - 2f64.ln()).abs() > 0.05, "{first} is the loss beside an equal model");
    let resumed = job("resumed")
        .set("train.gradient_accumulation_steps", 2)
        .set("train.resume_from_checkpoint", two_cores.path("out/checkpoint-2").display());
    host.complete(&resumed).await;
    check(&resumed, &fixture, "reference");
    let adapters = job("adapters")
        .set("resources.cores", 2)
        .set("peft.method", "lora")
        .set("train.save_strategy", "no");
    host.complete(&adapters).await;
    let of_adapters = adapters.output("out").trainer_state().series("loss")[0];
    assert!((of_adapters - first).abs() <= LIMIT_FIRST, "{of_adapters}, {first}");
}

#[tokio::test]
async fn a_reference_with_other_parameters_is_refused() {
    let fixture = fixture("dpo/dpo.json");
    let host = Host::started(1).await;
    let width = "\"intermediate_size\": 24";
    for (name, from, to, difference) in [
        ("wide", width, "\"intermediate_size\": 32", "[32, 16] in the reference and [24, 16]"),
        ("deep", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "also has model.layers.2"),
        ("flat", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", "has no model.layers.1"),
        ("heads", "\"head_dim\": 4", "\"head_dim\": 8", "[32, 16] in the reference and [16, 16]"),
    ] {
        let draft = with_reference(pairs(&host, name, &fixture, "reference"));
        let config = draft.path("reference/config.json");
        let text = fs::read_to_string(&config).unwrap();
        assert!(text.contains(from), "{config:?} lacks {from}");
        fs::write(&config, text.replace(from, to)).unwrap();
        let refusal = host.create(&draft).await.unwrap_err();
        let details = refusal.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, reasons::JOB_FILE_INVALID);
        let violation = &details.bad_request().unwrap().field_violations[0];
        assert_eq!(violation.field, "dpo.ref_model_name_or_path");
        for part in ["/reference\"", "/model", difference] {
            let said = &violation.description;
            assert!(said.contains(part), "{name}: {said} lacks {part}");
        }
    }
}

/// Cores that share the trained model share the reference, too; with a sum of losses, each of weighted pairs.
#[tokio::test]
async fn divided_models_and_references_learn_what_one_core_does() {
    let fixture = fixture("dpo/dpo.json");
    let host = Host::started(2).await;
    for (name, key, value, rows) in [
        ("fsdp", "parallel.fsdp", "full_shard", 2),
        ("tensor", "parallel.tensor", "2", 4),
        ("stages", "parallel.pipeline", "2", 4),
    ] {
        let draft = pairs(&host, name, &fixture, "mixture")
            .set("resources.cores", 2)
            .set("train.per_device_train_batch_size", rows)
            .set("train.save_strategy", "no")
            .set(key, value);
        host.complete(&draft).await;
        check(&draft, &fixture, "mixture");
    }
}

/// A stage has its part of both models, here of a reference that is another model, and adapters beside one of them.
#[tokio::test]
async fn pairs_in_stages_learn_what_one_core_does() {
    let fixture = fixture("dpo/dpo.json");
    let host = Host::started(4).await;
    let stages = |name: &str, run: &str| {
        let draft = pairs(&host, name, &fixture, run).set("train.save_strategy", "no");
        let draft = draft.set("resources.cores", 4).set("parallel.pipeline", 2);
        draft.set("train.per_device_train_batch_size", 2).set("parallel.microbatches", 2)
    };
    let named = with_reference(stages("named", "reference")).set("parallel.fsdp", "full_shard");
    host.complete(&named).await;
    check(&named, &fixture, "reference");
    let adapted = |draft: Draft| draft.set("peft", "{method: lora, r: 4}");
    let divided = adapted(stages("divided", "sigmoid"));
    let whole =
        adapted(pairs(&host, "whole", &fixture, "sigmoid")).set("train.save_strategy", "no");
    for draft in [&divided, &whole] {
        host.complete(draft).await;
    }
    let [divided, whole] = [divided, whole].map(|draft| draft.output("out").trainer_state());
    for name in ["loss", "grad_norm", "rewards/margins", "logps/chosen"] {
        let (found, expect) = (divided.series(name), whole.series(name));
        assert_eq!(found.len(), expect.len());
        for (found, expect) in found.iter().zip(&expect) {
            let difference = (found - expect).abs() / (1.0 + expect.abs());
            assert!(difference <= LIMIT_FIRST, "{name}: {found}, {expect} on one core");
        }
    }
}
