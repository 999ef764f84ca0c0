//! Commits to the tests' own hub, read back by `huggingface_hub`, which also commits to it.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use traind_hub::{Commit, CommitFile, Error, Problem, Publisher};
use traind_tests::repositories::{FOREIGN, PART_BYTES, Repositories, TOKEN};

const ID: &str = "ann/tiny";
/// The parts of the upload, more than are sent at one time.
const PARTS: usize = 5;
const ATTEMPTS_MAX: usize = 50;

/// The client reads its settings from the environment, which is that of a process: so each case is a
/// run of this test's program.
fn in_environment(test: &str, variables: &[(&str, String)]) {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args([test, "--exact", "--nocapture", "--include-ignored"]);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    assert!(command.status().unwrap().success(), "{test}");
}

fn always() -> bool {
    true
}

fn weights() -> Vec<u8> {
    (0..PARTS * PART_BYTES + 7).map(|index| (index % 251) as u8).collect()
}

/// Files of a model, with `state` in the folder of its checkpoint.
fn write(folder: &Path, state: &[&str]) -> Vec<CommitFile> {
    fs::create_dir_all(folder.join("last-checkpoint")).unwrap();
    fs::write(folder.join("model.safetensors"), weights()).unwrap();
    fs::write(folder.join("config.json"), "{}").unwrap();
    fs::write(folder.join("empty.txt"), "").unwrap();
    let mut names = vec!["model.safetensors".to_owned(), "config.json".into(), "empty.txt".into()];
    for name in state {
        let name = format!("last-checkpoint/{name}");
        fs::write(folder.join(&name), format!("\u{0}{name}\u{0}").into_bytes()).unwrap();
        names.push(name);
    }
    names.iter().map(|name| CommitFile::open(&folder.join(name), name).unwrap()).collect()
}

fn publisher(id: &str, branch: Option<&str>) -> Publisher {
    let publisher = Publisher::open(id, branch, &always).unwrap();
    for _ in 0..ATTEMPTS_MAX {
        match publisher.create(Some(true), &always) {
            Ok(()) => return publisher,
            Err(error) => assert!(error.problem.may_pass(), "{error}"),
        }
    }
    panic!("the hub creates no repository");
}

/// Sends a commit until it succeeds; returns its address.
fn persist(publisher: &Publisher, commit: Commit) -> Option<String> {
    let commit = Arc::new(commit);
    for _ in 0..ATTEMPTS_MAX {
        match publisher.send(&commit, &always) {
            Ok(url) => return url,
            Err(error) => assert!(error.problem.may_pass(), "{error}"),
        }
    }
    panic!("the hub takes no commit");
}

fn commit_state(
    publisher: &Publisher,
    folder: &Path,
    message: &str,
    state: &[&str],
) -> Option<String> {
    let commit = Commit::new(message.to_owned(), write(folder, state)).replacing("last-checkpoint");
    persist(publisher, commit)
}

#[test]
fn a_commit_arrives_once_although_each_request_fails_three_times() {
    let hub = Repositories::start();
    hub.fail_writes(3);
    in_environment("commits", &hub.environment());
    hub.assert_well_used();
    assert_eq!(hub.titles(ID), ["first", "second"]);
    assert!(hub.is_private(ID));
    assert_eq!(hub.file(ID, "model.safetensors"), Some(weights()));
    let names = ["config.json", "empty.txt", "last-checkpoint/a.txt", "model.safetensors"];
    assert_eq!(hub.names(ID), names);
    assert_eq!(hub.commits(ID, "trial").len(), 1);
    // Parts that had arrived were not sent again, and neither were files.
    let requests = hub.server().requests();
    let parts = requests.iter().filter(|it| it.method == "PUT" && it.query.starts_with("part="));
    assert_eq!(parts.count(), 4 * (PARTS + 1));
}

#[test]
#[ignore = "run by other tests"]
fn commits() {
    let folder = tempfile::tempdir().unwrap();
    // The account is that of the token.
    let publisher = publisher("tiny", None);
    assert_eq!(publisher.repository().id, ID);
    let url = commit_state(&publisher, folder.path(), "first", &["a.txt", "b.txt"]).unwrap();
    assert!(url.contains("/ann/tiny/commit/"), "{url}");
    assert_eq!(commit_state(&publisher, folder.path(), "again", &["a.txt", "b.txt"]), None);
    commit_state(&publisher, folder.path(), "second", &["a.txt"]).unwrap();
    commit_to_branch(folder.path());
}

fn commit_to_branch(folder: &Path) {
    let publisher = publisher(ID, Some("trial"));
    let files = vec![CommitFile::open(&folder.join("config.json"), "config.json").unwrap()];
    persist(&publisher, Commit::new("on a branch".to_owned(), files)).unwrap();
}

#[test]
fn refusals_name_repository_and_cause() {
    let hub = Repositories::start();
    in_environment("is_refused", &hub.environment());
    in_environment("has_no_token", &[("HF_ENDPOINT", hub.server().url())]);
    let offline = [&hub.environment()[..], &[("HF_HUB_OFFLINE", "1".to_owned())]].concat();
    in_environment("is_offline", &offline);
    hub.refuse_writes(true);
    in_environment("may_not_write", &hub.environment());
}

fn refused(error: &Error, expect: &str) {
    assert_eq!(error.to_string(), expect);
    assert!(!error.to_string().contains(TOKEN));
}

#[test]
#[ignore = "run by another test"]
fn is_refused() {
    publisher(ID, None);
    let foreign = Publisher::open(&format!("{FOREIGN}/tiny"), None, &always).unwrap();
    let error = foreign.create(None, &always).unwrap_err();
    refused(
        &error,
        "model others/tiny: the token in HF_TOKEN may not write to it: You don't have the rights \
         to create a model",
    );
}

#[test]
#[ignore = "run by another test"]
fn has_no_token() {
    let error = Publisher::open(ID, None, &always).unwrap_err();
    refused(
        &error,
        "model ann/tiny: uploading needs a token that may write to it: set HF_TOKEN in the \
         daemon's environment",
    );
}

#[test]
#[ignore = "run by another test"]
fn is_offline() {
    let error = Publisher::open(ID, None, &always).unwrap_err();
    refused(&error, "model ann/tiny: HF_HUB_OFFLINE is set, so that nothing can be uploaded");
}

#[test]
#[ignore = "run by another test"]
fn may_not_write() {
    let folder = tempfile::tempdir().unwrap();
    let publisher = Publisher::open(ID, None, &always).unwrap();
    // The repository is there, though it may not be created.
    publisher.create(None, &always).unwrap();
    let send = |path: PathBuf, name| {
        let files = vec![CommitFile::open(&path, name).unwrap()];
        let commit = Arc::new(Commit::new("refused".to_owned(), files));
        publisher.send(&commit, &always).unwrap_err()
    };
    write(folder.path(), &[]);
    let error = send(folder.path().join("config.json"), "a.json");
    refused(&error, "model ann/tiny: the token in HF_TOKEN may not write to it: you may not write");
    let error = send(folder.path().join("model.safetensors"), "a.safetensors");
    refused(&error, "model ann/tiny: the token in HF_TOKEN may not write to it: you may not write");
}

#[test]
fn a_hub_that_does_not_answer_is_left_alone() {
    // Connections are accepted by the kernel alone.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    in_environment("is_abandoned", &[("HF_ENDPOINT", url), ("HF_TOKEN", TOKEN.to_owned())]);
}

#[test]
#[ignore = "run by another test"]
fn is_abandoned() {
    let error = Publisher::open("tiny", None, &|| false).unwrap_err();
    assert!(matches!(*error.problem, Problem::Abandoned), "{error}");
}

/// The tests' hub is true to `huggingface_hub`, which creates a repository, commits, and reads what
/// either has committed.
#[test]
fn huggingface_hub_reads_what_was_committed() {
    let Some(python) = std::env::var_os("TRAIND_TEST_PYTHON").filter(|path| !path.is_empty())
    else {
        eprintln!("skipped: TRAIND_TEST_PYTHON names no interpreter with huggingface_hub");
        return;
    };
    let (hub, folder) = (Repositories::start(), tempfile::tempdir().unwrap());
    in_environment("commits", &hub.environment());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/publish.py");
    fs::write(folder.path().join("weights"), weights()).unwrap();
    let mut command = Command::new(python);
    command.arg(script).arg(folder.path()).envs(hub.environment());
    // Without Xet, which the tests' hub does not speak.
    command.env("HF_HUB_DISABLE_XET", "1").env("HF_HOME", folder.path().join("home"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    hub.assert_well_used();
    assert_eq!(hub.titles("ann/python"), ["from Python"]);
    let names = ["config.json", "large.safetensors", "small.safetensors"];
    assert_eq!(hub.names("ann/python"), names);
    assert_eq!(hub.file("ann/python", "large.safetensors"), Some([&weights()[..], b"x"].concat()));
}
