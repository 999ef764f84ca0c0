//! Jobs of several hosts, as far as one machine shows: the environment of their processes, how these meet, whose a
//! device is, and the program that all of them compile.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::json;
use traind_tests::{Draft, Host, Runners};

use crate::installed;

/// A free port whose successor is free, too.
fn two_free_ports() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if first < u16::MAX && TcpListener::bind(("127.0.0.1", first + 1)).is_ok() {
            return first;
        }
    }
}

/// The runner finds what a daemon would have set. Each process tries its own cores, and all compile one program for all
/// cores, which the twin does not execute.
#[tokio::test]
async fn hosts_of_a_job_meet_and_compile_one_program() {
    if !Runners::are_possible() {
        return;
    }
    let host = installed::stopped_host(4, "trn1.32xlarge", "");
    let draft = Draft::new(&host, "hosts");
    let job_file = draft
        .job_file
        .replace("platform: cpu", "platform: neuron")
        .replace("cores: 1", "hosts: 2\n  cores: 2")
        .replace("num_train_epochs: 2", "max_steps: 1\n  do_eval: false");
    let coordinator = format!("127.0.0.1:{}", two_free_ports());
    let variables = installed::environment(&host, "instance=trn1.32xlarge");
    let mut runners = Runners::start_with(&host, &draft, &job_file, 2, |rank, command| {
        command.envs(variables.clone()).env("TRAIND_COORDINATOR", &coordinator);
        command.env("NEURON_RT_VISIBLE_CORES", ["0-1", "2-3"][rank]);
        true
    });
    let statuses = runners.ended().await;
    assert!(statuses.iter().all(|status| !status.success()), "{statuses:?}");
    let messages: Vec<String> = (0..2)
        .map(|rank| runners.finished(rank).failure.map(|it| it.message).unwrap_or_default())
        .collect();
    let expected = "executes no programs of several processes";
    assert!(messages.iter().any(|message| message.contains(expected)), "{messages:?}");
}

/// Another program has the port of the collectives.
#[test]
fn a_process_that_meets_no_other_is_explained() {
    let mut host = Host::cold(1);
    installed::install(&mut host, "trn1.2xlarge", "");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let runner = traind_tests::traind().with_file_name("traind-runner");
    let mut probe = Command::new(runner);
    probe.arg("probe").envs(installed::environment(&host, "instance=trn1.2xlarge,meet_ms=20"));
    probe.envs([
        ("NEURON_INTERNAL_PJRT_C_API_VERSION", "0.81"),
        ("NEURON_PJRT_PROCESSES_NUM_DEVICES", "2,2"),
        ("NEURON_PJRT_PROCESS_INDEX", "0"),
    ]);
    probe.env("NEURON_RT_ROOT_COMM_ID", taken.local_addr().unwrap().to_string());
    probe.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut probe = probe.spawn().unwrap();
    let request = json!({"platform": "neuron", "plugin": installed::plugin(), "cores": 2});
    probe.stdin.take().unwrap().write_all(request.to_string().as_bytes()).unwrap();
    let output = probe.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("Timeout waiting for incoming connection"), "{text}");
    let meaning = traind_neuron::explain(&text).unwrap();
    assert!(meaning.meaning.contains("NEURON_RT_ROOT_COMM_ID"), "{meaning}");
}
