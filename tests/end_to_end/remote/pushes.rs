//! Checkpoints and models that are committed to the hub.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use traind_proto::reasons;
use traind_proto::v1::SavedKind;
use traind_tests::repositories::{FOREIGN, Repositories, TOKEN};
use traind_tests::{CommandOutput, Draft, Host, until};

use crate::clients::python_client::python;

const ID: &str = "ann/tiny";

/// A job that commits.
fn pushed(host: &Host, name: &str) -> Draft {
    Draft::new(host, name)
        .set("train.save_steps", 8)
        .set("train.push_to_hub", true)
        .set("train.hub_model_id", "tiny")
        .set("train.hub_strategy", "checkpoint")
        .set("train.hub_always_push", true)
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_and_model_are_committed_although_each_request_fails_once() {
    let hub = Repositories::start();
    let host = Host::started_with_environment(1, hub.environment()).await;
    // The requests before the first step are not repeated.
    let draft = pushed(&host, "pushed").set("train.hub_private_repo", true);
    let gate = host.gate("pushed", 1);
    let job = host.create(&draft).await.unwrap();
    host.until_at(&job.id, &gate).await;
    hub.fail_writes(1);
    gate.open();
    let history = host.watch(&job.id).await;
    hub.assert_well_used();
    let step = |step: u64| format!("Training in progress, step {step}");
    let titles = [
        step(8),
        format!("{}, checkpoint", step(8)),
        step(16),
        format!("{}, checkpoint", step(16)),
        "End of training".to_owned(),
    ];
    assert_eq!(hub.titles(ID), titles);
    assert!(hub.is_private(ID));
    for name in ["model.safetensors", "config.json", "tokenizer.json", "README.md"] {
        assert_eq!(hub.file(ID, name), fs::read(draft.path("out").join(name)).ok(), "{name}");
    }
    let manifest = hub.file(ID, "last-checkpoint/manifest.json").unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&manifest).unwrap()["step"], json!(16));
    assert!(!hub.names(ID).iter().any(|name| name.starts_with("checkpoint-")));
    let last = history.uploaded().pop().unwrap();
    assert!(last.url.contains("/ann/tiny/commit/"), "{last:?}");
    assert_eq!((last.kind(), last.step), (SavedKind::Final, 16));
    let text = format!("{:?}{:?}{}", history.events, history.job, host.runner_log(&job.id));
    assert!(!text.contains(TOKEN));
    check_card(&draft, &history.finished().metrics["eval_accuracy"]);
}

/// Reads the model card as the hub does.
fn check_card(draft: &Draft, accuracy: &f64) {
    let Some(python) = python() else { return };
    let program = "import json, sys\n\
        from huggingface_hub import ModelCard\n\
        about = ModelCard.load(sys.argv[1]).data\n\
        print(json.dumps({r.metric_type: r.metric_value for r in about.eval_results}))\n\
        print(about.model_name, about.eval_results[0].dataset_name, about.pipeline_tag)\n";
    let mut command = Command::new(python);
    command.args(["-c", program]).arg(draft.path("out/README.md"));
    let output = CommandOutput::of(command.output().unwrap());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let (metrics, about) = output.stdout.split_once('\n').unwrap();
    let metrics: Value = serde_json::from_str(metrics).unwrap();
    assert_eq!(metrics["accuracy"], json!(accuracy));
    assert_eq!(about.trim(), "pushed validation.parquet text-classification");
}

#[tokio::test]
async fn a_run_that_is_restarted_commits_what_it_resumes_from() {
    let hub = Repositories::start();
    let host = Host::started_with_environment(1, hub.environment()).await;
    let draft = pushed(&host, "again")
        .set("train.hub_strategy", "every_save")
        .set("resources.max_restarts", 1);
    let gate = host.gate("again", 12);
    let job = host.create(&draft).await.unwrap();
    host.until_at(&job.id, &gate).await;
    until("a checkpoint is committed", || hub.titles(ID).len() == 1).await;
    assert!(host.kill_runner(&job.id, 1));
    gate.open();
    host.watch(&job.id).await;
    let titles = ["Training in progress, step 8", "Training in progress, step 16"];
    assert_eq!(hub.titles(ID), [&titles[..], &["End of training"]].concat());
}

#[tokio::test]
async fn the_strategy_decides_which_checkpoints_are_committed() {
    let hub = Repositories::start();
    let host = Host::started_with_environment(1, hub.environment()).await;
    for (strategy, expect) in
        [("end", &[][..]), ("all_checkpoints", &["checkpoint-8", "checkpoint-16"])]
    {
        let draft = pushed(&host, strategy)
            .set("train.hub_strategy", strategy)
            .set("train.hub_model_id", strategy);
        host.complete(&draft).await;
        let id = format!("ann/{strategy}");
        let names = hub.names(&id);
        let mut found: Vec<&str> =
            names.iter().filter_map(|name| name.strip_suffix("/manifest.json")).collect();
        found.sort_unstable_by_key(|name| name.len());
        assert_eq!(found, expect, "{strategy}: {names:?}");
        let titles = hub.titles(&id);
        assert_eq!(titles.len(), 1 + 2 * expect.len(), "{titles:?}");
        assert_eq!(titles.last().map(String::as_str), Some("End of training"));
    }
}

#[tokio::test]
async fn a_repository_that_may_not_be_written_is_found_before_the_first_step() {
    let hub = Repositories::start();
    let host = Host::started_with_environment(1, hub.environment()).await;
    let id = format!("{FOREIGN}/tiny");
    let history = host.run(&pushed(&host, "foreign").set("train.hub_model_id", &id)).await;
    let failure = history.finished().failure.clone().unwrap();
    assert_eq!(failure.reason, reasons::HUB_FAILED);
    assert_eq!(failure.field.as_deref(), Some("train.push_to_hub"));
    assert!(failure.message.starts_with(&format!("model {id}: the token")), "{failure:?}");
    assert!(history.steps().is_empty() && history.compiled().is_empty());
}
