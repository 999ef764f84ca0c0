//! A Python client that `grpcio-tools` generates from the proto files.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use traind_tests::{CommandOutput, Draft, Host, JOB_FILE};

const PROTO_FILES: [&str; 3] =
    ["traind/v1/events.proto", "traind/v1/jobs.proto", "traind/v1/profile.proto"];

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_python_client_creates_watches_and_cancels_jobs() {
    let Some(python) = python() else { return };
    let host = Host::started(2).await;
    let draft = Draft::new(&host, "job");
    fs::write(draft.path("job.yaml"), JOB_FILE).unwrap();
    let stubs = generate(&python, &draft.path("stubs"));

    let mut client = Command::new(&python);
    client.arg(in_tests("end_to_end/clients/python_client.py")).arg(stubs).arg(host.socket());
    client.arg(draft.folder()).arg(draft.path("job.yaml"));
    let output = CommandOutput::of(client.output().unwrap());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let saw: Value = serde_json::from_str(&output.stdout).unwrap();
    check_completed(&saw["completed"]);
    check_cancelled(&saw["cancelled"]);
    check_refused(&saw["refused"]);
}

fn check_completed(saw: &Value) {
    assert_eq!(saw["state"], "JOB_STATE_COMPLETED");
    let sequences = saw["sequences"].as_array().unwrap();
    assert_eq!(*sequences, (1..=sequences.len()).map(|n| json!(n)).collect::<Vec<_>>());
    assert_eq!(saw["steps"], json!((1..=16).collect::<Vec<_>>()));
    assert!(saw["metrics"]["eval_accuracy"].as_f64().unwrap() > 0.3, "{saw}");
}

fn check_cancelled(saw: &Value) {
    assert_eq!(saw["cancelled"], json!([saw["id"]]));
}

fn check_refused(saw: &Value) {
    assert_eq!(saw["code"], "INVALID_ARGUMENT");
    assert_eq!((&saw["reason"], &saw["domain"]), (&json!("JOB_FILE_INVALID"), &json!("traind")));
    let violations = saw["violations"].as_object().unwrap();
    let mut fields: Vec<&String> = violations.keys().collect();
    fields.sort(); // whether JSON keeps an order is up to the features of the whole build
    assert_eq!(fields, ["resources.cores", "train.learning_rat"]);
    let nearest = violations["train.learning_rat"].as_str().unwrap();
    assert!(nearest.contains("train.learning_rate"), "{nearest}");
}

/// The interpreter of an environment with `grpcio-tools` and `grpcio-status`, made by
/// `scripts/test`.
pub(crate) fn python() -> Option<OsString> {
    let python = env::var_os("TRAIND_TEST_PYTHON").filter(|path| !path.is_empty());
    if python.is_none() {
        let why = "TRAIND_TEST_PYTHON is not set; scripts/test sets it";
        assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{why}");
        eprintln!("skipped: {why}");
    }
    python
}

/// Generates the client's code and returns its folder.
fn generate(python: &OsString, folder: &Path) -> PathBuf {
    fs::create_dir(folder).unwrap();
    let mut protoc = Command::new(python);
    protoc.args(["-m", "grpc_tools.protoc", "--proto_path"]).arg(in_tests("../proto"));
    protoc.arg("--python_out").arg(folder).arg("--grpc_python_out").arg(folder);
    let output = CommandOutput::of(protoc.args(PROTO_FILES).output().unwrap());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    folder.to_owned()
}

/// A path in the folder of this package.
pub(crate) fn in_tests(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
