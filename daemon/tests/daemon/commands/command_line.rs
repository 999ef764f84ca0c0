//! The command line: what it prints and what it exits with.

use std::io::{BufRead, BufReader, Read};
use std::process::{Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use traind_proto::v1::JobState;

use crate::support::host::Host;
use crate::support::runner::{COMPLETES, STOPS_WHEN_ASKED};

fn text(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn write_job(host: &Host, name: &str) {
    std::fs::write(host.path("job.yaml"), host.request(name, 1).job_file).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn submit_prints_the_id_and_watch_shows_the_whole_run() {
    let host = Host::started(1, COMPLETES).await;
    write_job(&host, "first");
    let (code, id, progress) = text(&host.cli(&["submit", "job.yaml", "--watch"]));
    assert_eq!(code, Some(0), "{progress}");
    let job = host.get(id.trim()).await;
    assert_eq!(job.name, "first");
    for words in ["running", "step 40/40", "eval_accuracy 0.5000", "output: /"] {
        assert!(progress.contains(words), "{progress}");
    }
    let (code, _, again) = text(&host.cli(&["watch", "first"]));
    assert_eq!((code, again), (Some(0), progress));
    let (_, list, _) = text(&host.cli(&["ls", "--state", "completed"]));
    assert!(list.contains(id.trim()) && list.contains("40/40"), "{list}");
    let (_, list, _) = text(&host.cli(&["ls", "--state", "running"]));
    assert!(!list.contains(id.trim()), "{list}");
    let (_, logs, _) = text(&host.cli(&["logs", "first"]));
    assert_eq!(logs.lines().filter(|line| line.contains(" step ")).count(), 40, "{logs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_waits_for_a_restarting_daemon() {
    let mut host = Host::started(1, STOPS_WHEN_ASKED).await;
    write_job(&host, "first");
    host.kill_daemon();
    assert!(host.socket().exists(), "a killed daemon leaves its socket");
    let mut submit = host.traind();
    submit.args(["submit", "job.yaml"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let submitting = submit.spawn().unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    host.start().await;
    let (code, id, errors) = text(&submitting.wait_with_output().unwrap());
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(host.get(id.trim()).await.name, "first");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_prints_as_json_and_yaml() {
    let host = Host::started(1, COMPLETES).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Completed).await;
    let (_, json, _) = text(&host.cli(&["get", "first", "-o", "json"]));
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&value["id"], &value["state"]), (&job.id.clone().into(), &"completed".into()));
    assert_eq!(value["progress"]["step"], 40);
    let (_, yaml, _) = text(&host.cli(&["get", "first", "-o", "yaml"]));
    let same: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(same, value);
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_distinguish_a_failed_job_from_a_failed_command() {
    let host = Host::started(1, "say started; say failed").await;
    write_job(&host, "first");
    let (code, _, errors) = text(&host.cli(&["submit", "job.yaml", "--watch"]));
    assert_eq!(code, Some(3), "{errors}");
    assert!(errors.contains("DATA_ROW_INVALID: row 7 has 3 fields"), "{errors}");
    let (code, _, errors) = text(&host.cli(&["watch", "absent"]));
    assert_eq!((code, errors.as_str()), (Some(1), "error: no job has the id or name \"absent\"\n"));
    assert_eq!(text(&host.cli(&["watch"])).0, Some(2));
    assert_eq!(text(&host.cli(&["submit", "absent.yaml"])).0, Some(1));
    let (code, _, errors) = text(&host.cli(&["--socket", "/nowhere/x.sock", "ls"]));
    assert_eq!(code, Some(1));
    assert!(errors.contains("traind serve"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_violation_of_a_job_file_is_printed_with_its_line() {
    let host = Host::started(1, COMPLETES).await;
    std::fs::write(host.path("job.yaml"), "name: x\ntrain: {learning_rat: 1}\nmodel: 3\n").unwrap();
    let (code, _, errors) = text(&host.cli(&["submit", "job.yaml"]));
    assert_eq!(code, Some(1));
    for words in
        ["train.learning_rat: ", "learning_rate", "(line 2)", "model: ", "(line 3)", "output_dir: "]
    {
        assert!(errors.contains(words), "{errors}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_stops_following_and_not_the_job() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    let mut watch = host.traind().args(["watch", &job.id]).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(watch.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("runner") {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0);
    }
    kill_process(Pid::from_child(&watch), Signal::INT).unwrap();
    let rest: String = errors.lines().map(Result::unwrap).collect();
    assert_eq!(watch.wait().unwrap().code(), Some(130));
    assert!(
        rest.contains("keeps running") && rest.contains(&format!("traind watch {}", job.id)),
        "{rest}"
    );
    assert_eq!(host.get(&job.id).await.state(), JobState::Running);

    assert_eq!(text(&host.cli(&["cancel", "first"])).0, Some(0));
    assert_eq!(text(&host.cli(&["watch", "first"])).0, Some(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_survives_a_restart_of_the_daemon() {
    let mut host = Host::started(1, crate::support::runner::WAITS_FOR_GO).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    let mut watch = host.traind().args(["watch", "first"]).stderr(Stdio::piped()).spawn().unwrap();
    // Killed in the middle of the stream of events.
    let mut errors = BufReader::new(watch.stderr.take().unwrap());
    let mut progress = String::new();
    while !progress.contains("step 20/40 ") {
        assert!(errors.read_line(&mut progress).unwrap() > 0, "{progress}");
    }
    host.kill_daemon();
    host.start().await;
    std::fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    errors.read_to_string(&mut progress).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(0), "{progress}");
    for step in 1..=40 {
        let shown = progress.matches(&format!("step {step}/40 ")).count();
        assert_eq!(shown, 1, "step {step} of\n{progress}");
    }
}

#[test]
fn plugins_are_listed_without_a_daemon() {
    let host = Host::new(1, "");
    let (code, list, _) = text(&host.cli(&["plugins"]));
    assert_eq!(code, Some(0));
    for words in [
        "cpu",
        "0.0.1",
        "xla_cpu_pjrt.so",
        "plugins install cuda",
        "plugins install mpi",
        "TRAIND_PLUGIN_NEURON",
    ] {
        assert!(list.contains(words), "{list}");
    }
}

#[test]
fn an_installed_plugin_is_not_fetched_again() {
    let host = Host::new(1, "");
    let (code, said, _) = text(&host.cli(&["plugins", "install", "cpu"]));
    assert_eq!(code, Some(0));
    assert!(said.contains("installed already"), "{said}");
}

#[test]
fn a_failed_plugin_install_names_what_is_missing() {
    let host = Host::new(1, "");
    std::fs::remove_dir_all(host.path("cache/plugins")).unwrap();
    let mut command = host.traind();
    command.args(["plugins", "install", "cpu"]).env("TRAIND_PYTHON", "/nowhere/python3");
    let (code, _, errors) = text(&command.output().unwrap());
    assert_eq!(code, Some(1));
    assert!(errors.contains("--from") && errors.contains("xla_cpu_pjrt-0.0.1-py3"), "{errors}");

    std::fs::write(host.path("wrong.whl"), "not it").unwrap();
    let (code, _, errors) = text(&host.cli(&["plugins", "install", "cpu", "--from", "wrong.whl"]));
    assert_eq!(code, Some(1));
    assert!(errors.contains("is not the pinned wheel"), "{errors}");
    let (code, _, errors) = text(&host.cli(&["plugins", "install", "cuda", "--from", "wrong.whl"]));
    assert_eq!(code, Some(1));
    assert!(errors.contains("--from must name a folder"), "{errors}");
    let (code, _, errors) = text(&host.cli(&["plugins", "install", "neuron"]));
    assert_eq!(code, Some(1));
    assert!(errors.contains("libneuronxla"), "{errors}");
    let left = std::fs::read_dir(host.path("cache/plugins")).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).filter(|name| name != ".lock").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_host_is_checked_for_a_platform() {
    let host = Host::new(1, "");
    let (code, found, _) = text(&host.cli(&["doctor", "--platform", "cpu"]));
    assert_eq!(code, Some(0), "{found}");
    assert!(found.contains("ok       PJRT plugin: "), "{found}");
    std::fs::remove_dir_all(host.path("cache/plugins")).unwrap();
    let (code, found, _) = text(&host.cli(&["doctor", "--platform", "cpu"]));
    assert_eq!(code, Some(1), "{found}");
    assert!(found.contains("run `traind plugins install cpu`"), "{found}");
    let (code, _, errors) = text(&host.cli(&["doctor", "--platform", "tpu"]));
    assert_eq!(code, Some(1));
    assert!(errors.contains("known: cpu, cuda, neuron"), "{errors}");
}

#[test]
fn completions_contain_the_commands() {
    let host = Host::new(1, "");
    let (code, script, _) = text(&host.cli(&["completions", "bash"]));
    assert_eq!(code, Some(0));
    assert!(script.contains("submit") && script.contains("plugins"));
}

#[test]
fn a_closed_output_is_no_error() {
    let host = Host::new(1, COMPLETES);
    for arguments in [&["plugins"][..], &["completions", "bash"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = host.traind().args(arguments).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(141), Vec::new()));
    }
}

/// The runner has a process group of its own, which the terminal's Ctrl-Z does not reach.
#[test]
fn ctrl_z_stops_the_runner_of_a_command_with_it() {
    let host = Host::new(1, "");
    // A shell that waits for its child to become another program is in a state that no signal ends, so it becomes that
    // program itself.
    let script = "#!/bin/sh\ncat > /dev/null\necho $$ > started.part\nmv started.part started\nexec sleep 600\n";
    std::fs::write(host.path("sleeps"), script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(host.path("sleeps"), mode).unwrap();
    write_job(&host, "first");
    let mut command = host.traind();
    command.args(["data", "job.yaml", "--runner", "./sleeps"]).current_dir(host.path(""));
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| host.path("started").exists());
    let runner = std::fs::read_to_string(host.path("started")).unwrap();
    let own = Pid::from_child(&child);
    let ids = [runner.trim().parse().unwrap(), own.as_raw_nonzero().get()];
    let are_stopped = || ids.map(|id| state(id) == Some('T'));
    kill_process(own, Signal::TSTP).unwrap();
    wait_for(|| are_stopped() == [true; 2]);
    kill_process(own, Signal::CONT).unwrap();
    wait_for(|| are_stopped() == [false; 2]);
    kill_process(own, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

/// The state of a process, as `/proc` has it.
fn state(id: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn wait_for(condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < std::time::Duration::from_secs(180), "it takes too long");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
