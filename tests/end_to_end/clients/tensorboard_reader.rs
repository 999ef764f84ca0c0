//! TensorBoard itself reads a job's event files.

use std::env;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use traind_tests::{CommandOutput, Draft, Host};

const EPOCHS: usize = 2;
const STEPS: usize = 8 * EPOCHS;

#[tokio::test]
async fn tensorboard_reads_the_event_files_of_a_job() {
    let Some(python) = env::var_os("TRAIND_TEST_TENSORBOARD").filter(|path| !path.is_empty())
    else {
        let why = "TRAIND_TEST_TENSORBOARD is not set; scripts/test sets it";
        assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{why}");
        eprintln!("skipped: {why}");
        return;
    };
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "curves").set("train.eval_strategy", "epoch");
    let history = host.complete(&draft.set("train.num_train_epochs", EPOCHS)).await;
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
