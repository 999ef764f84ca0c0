//! TensorBoard and MLflow themselves read the files of a job.

use std::env;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use traind_tests::{CommandOutput, Draft, History, Host};

const EPOCHS: usize = 2;
const STEPS: usize = 8 * EPOCHS;

#[tokio::test]
async fn tensorboard_and_mlflow_read_the_files_of_a_job() {
    let Some(python) = env::var_os("TRAIND_TEST_TENSORBOARD").filter(|path| !path.is_empty())
    else {
        let why = "TRAIND_TEST_TENSORBOARD is not set; scripts/test sets it";
        assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{why}");
        eprintln!("skipped: {why}");
        return;
    };
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "curves").set("train.eval_strategy", "epoch");
    let draft = draft.set("train.report_to", "[tensorboard, mlflow]");
    let history = host.complete(&draft.set("train.num_train_epochs", EPOCHS)).await;
    mlflow_reads(&history);
    let reader =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("end_to_end/clients/tensorboard_reader.py");
    let mut command = Command::new(python);
    command.arg(reader).arg(Path::new(&history.job.output_dir).join("runs"));
    let output = CommandOutput::of(command.output().unwrap());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let curves: Value = serde_json::from_str(&output.stdout).unwrap();
    let losses = curves["train/loss"].as_array().unwrap();
    assert_eq!(losses.len(), STEPS);
    for (read, step) in losses.iter().zip(history.steps()) {
        assert_eq!(read[0].as_u64(), Some(step.step));
        assert_eq!(read[1].as_f64().unwrap() as f32, step.loss as f32);
    }
    let accuracies = curves["eval/accuracy"].as_array().unwrap();
    assert_eq!(accuracies.len(), EPOCHS);
    let last = accuracies[EPOCHS - 1][1].as_f64().unwrap() as f32;
    assert_eq!(last, history.job.metrics["eval_accuracy"] as f32);
    for tag in ["train/learning_rate", "train/grad_norm", "train/epoch", "eval/loss"] {
        assert!(curves[tag].is_array(), "{tag} is not among {curves}");
    }
}

/// Compares the metrics that MLflow reads with those of the events.
fn mlflow_reads(history: &History) {
    let Some(python) = env::var_os("TRAIND_TEST_MLFLOW").filter(|path| !path.is_empty()) else {
        eprintln!("skipped: TRAIND_TEST_MLFLOW is not set; scripts/test sets it");
        return;
    };
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("end_to_end/clients/mlflow_reader.py");
    let mut command = Command::new(python);
    command.arg(reader).arg(Path::new(&history.job.output_dir).join("mlruns"));
    let output =
        CommandOutput::of(command.env("MLFLOW_ALLOW_FILE_STORE", "true").output().unwrap());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let run: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&run["name"], &run["status"]), (&"curves".into(), &"FINISHED".into()));
    assert_eq!(run["params"]["optim"], "adamw_torch");
    let losses = run["metrics"]["loss"].as_array().unwrap();
    let steps = history.steps();
    assert_eq!(losses.len(), steps.len());
    for (read, step) in losses.iter().zip(steps) {
        assert_eq!((read[0].as_u64(), read[1].as_f64()), (Some(step.step), Some(step.loss)));
    }
    let accuracies = run["metrics"]["eval_accuracy"].as_array().unwrap();
    assert_eq!(accuracies[EPOCHS - 1][1].as_f64().unwrap(), history.job.metrics["eval_accuracy"]);
}
