//! The Python package against a real daemon: its suite, run once with jobs that train.

use std::fs;
use std::process::Command;

use traind_tests::{CommandOutput, Draft, Host, JOB_FILE};

use crate::clients::python_client::{in_tests, python};

#[tokio::test(flavor = "multi_thread")]
async fn the_python_package_submits_follows_and_cancels() {
    let Some(python) = python() else { return };
    let host = Host::started(2).await;
    let draft = Draft::new(&host, "job");
    fs::write(draft.path("job.yaml"), JOB_FILE).unwrap();
    let package = draft.path("package");
    let output =
        run(Command::new(&python).arg(in_tests("../proto/python/generate.py")).arg(&package));
    assert_eq!(output.code, Some(0), "{}", output.stderr);

    let mut suite = Command::new(&python);
    suite.arg(in_tests("end_to_end/clients/python_package.py")).current_dir(draft.folder());
    suite.env("PYTHONPATH", &package).env("TRAIND_SOCKET", host.socket());
    let output = run(&mut suite);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
}

fn run(command: &mut Command) -> CommandOutput {
    CommandOutput::of(command.output().unwrap())
}
