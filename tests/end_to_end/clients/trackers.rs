//! A job that is restarted reports one run to W&B, whose own program uploads it, and one to MLflow's
//! server. Both have the log of the job.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};
use traind_tests::mlflow::Mlflow;
use traind_tests::{CommandOutput, Draft, History, Host, Output, until};

use crate::checkpoints::until_durable;

/// Enough for a log of W&B with several blocks.
const STEPS: u64 = 56;
/// Values of the whole training, which the Trainer's callback logs apart from the history.
const OF_TRAINING: [&str; 4] =
    ["train_runtime", "train_samples_per_second", "train_steps_per_second", "train_loss"];

/// Values of a row of W&B's history.
type Row = BTreeMap<String, f64>;

#[tokio::test]
async fn a_restarted_job_has_one_run_of_each_tracker() {
    let mlflow = Mlflow::start();
    // The server is not there from the start.
    mlflow.fail(2);
    let host = Host::started_with_environment(1, mlflow.environment()).await;
    let draft = Draft::new(&host, "tracked")
        .set("train.report_to", "[mlflow, wandb]")
        .set("train.run_name", "curves")
        .set("train.project", "animals")
        .set("train.max_steps", STEPS)
        .set("train.eval_strategy", "epoch")
        .set("train.save_steps", 10)
        .set("resources.max_restarts", 1);
    let gate = host.gate("tracked", 13);
    let job = host.create(&draft).await.unwrap();
    host.until_at(&job.id, &gate).await;
    until_durable(&draft, 10).await;
    until("the job has a run in MLflow", || !mlflow.runs().is_empty()).await;
    assert!(host.kill_runner(&job.id, 1));
    gate.open();
    let history = host.watch(&job.id).await;
    assert_eq!(history.resumed()[0].step, 10);
    let output = draft.output("out");
    mlflow_has(&mlflow, &history, &output);
    wandb_has(&history, &output);
}

fn log_history(output: &Output) -> Vec<Map<String, Value>> {
    let state = output.trainer_state().0;
    let entries = state["log_history"].as_array().unwrap();
    entries.iter().map(|entry| entry.as_object().unwrap().clone()).collect()
}

fn mlflow_has(mlflow: &Mlflow, history: &History, output: &Output) {
    let [run] = &mlflow.runs()[..] else { panic!("{:?}", mlflow.runs()) };
    assert_eq!((run.experiment.as_str(), run.name.as_str()), ("animals", "curves"));
    assert_eq!(run.tags["traind.job_id"], history.job.id);
    assert_eq!(run.parameters["optim"], "adamw_torch");
    assert_eq!(run.statuses, ["RUNNING", "RUNNING", "FINISHED"]);
    for entry in log_history(output) {
        let step = entry["step"].as_u64().unwrap();
        for (name, value) in entry.iter().filter(|(name, _)| *name != "step") {
            let values: Vec<f64> = run.metrics.get(name).map_or_else(Vec::new, |values| {
                let of_step = values.iter().filter(|(found, _)| *found == step);
                of_step.map(|(_, value)| *value).collect()
            });
            let value = value.as_f64().unwrap();
            assert!(values.contains(&value), "{name} of step {step} is {value}, not {values:?}");
        }
    }
}

fn wandb_has(history: &History, output: &Output) {
    let folder = run_folder(output, &history.job.id);
    let Some(python) = env::var_os("TRAIND_TEST_WANDB").filter(|path| !path.is_empty()) else {
        eprintln!("skipped: TRAIND_TEST_WANDB is not set; scripts/test sets it");
        return;
    };
    let log = folder.join(format!("run-{}.wandb", history.job.id));
    assert!(log.metadata().unwrap().len() > 32 * 1024, "the log has one block");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("end_to_end/clients/wandb_sync.py");
    let output_of = Command::new(python).arg(program).arg(&folder).output().unwrap();
    let said = CommandOutput::of(output_of);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let run: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(run["id"], history.job.id);
    assert_eq!((&run["project"], &run["name"]), (&json!("animals"), &json!("curves")));
    assert_eq!((&run["complete"], &run["exitcode"]), (&json!(true), &json!(0)));
    assert_eq!(run["config"]["optim"], "adamw_torch");
    assert_eq!(run["config"]["model_type"], "bert");
    let expected: Vec<_> = log_history(output).into_iter().map(row).collect();
    let rows: Vec<_> = run["history"].as_array().unwrap().iter().map(without_times).collect();
    assert_eq!(rows, expected);
    let summary = without_times(&run["summary"]);
    assert_eq!(summary["train/loss"], output.trainer_state().series("loss").pop().unwrap());
    assert!(OF_TRAINING.iter().all(|name| summary.contains_key(*name)), "{summary:?}");
}

/// The only folder of a run below the output folder.
fn run_folder(output: &Output, id: &str) -> PathBuf {
    let folders = output.folder().join("wandb").read_dir().unwrap();
    let [folder] = &folders.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()[..] else {
        panic!("several runs of one job")
    };
    let name = folder.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("offline-run-") && name.ends_with(id), "{name}");
    folder.clone()
}

/// An entry of `log_history` as the Trainer's callback names its values.
fn row(entry: Map<String, Value>) -> Row {
    let named = entry.into_iter().filter_map(|(name, value)| {
        let key = match name.as_str() {
            "step" => "train/global_step".to_owned(),
            "total_flos" => return None,
            name if OF_TRAINING.contains(&name) => return None,
            name => match name.strip_prefix("eval_") {
                Some(metric) => format!("eval/{metric}"),
                None => format!("train/{name}"),
            },
        };
        Some((key, value.as_f64().unwrap()))
    });
    named.collect()
}

fn without_times(row: &Value) -> Row {
    let values = row.as_object().unwrap().iter().filter(|(name, _)| !name.starts_with('_'));
    values.map(|(name, value)| (name.clone(), value.as_f64().unwrap())).collect()
}
