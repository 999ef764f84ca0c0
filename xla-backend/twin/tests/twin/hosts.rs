//! Jobs of several hosts, as far as one machine shows: the environment of their processes, how these meet, whose a
//! device is, and the programs that all of them compile and execute.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use traind_proto::reasons;
use traind_tests::{Draft, Host, Runners};

use crate::families::{CPU_VARIABLES, assert_close};
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

/// A job with dropout on four cores of `hosts` hosts.
fn job_file(draft: &Draft, platform: &str, hosts: usize, parallel: &str) -> String {
    let cores = 4 / hosts;
    let overrides = "config_overrides: {num_hidden_layers: 1, hidden_dropout_prob: 0.1}";
    draft
        .job_file
        .replace("classification\n", &format!("classification\n  {overrides}\n"))
        .replace("num_train_epochs: 2\n  per_device_train_batch_size: 8", TRAIN)
        .replace("platform: cpu", &format!("platform: {platform}"))
        .replace("cores: 1\n", &format!("hosts: {hosts}\n  cores: {cores}\nparallel: {parallel}\n"))
}

const TRAIN: &str = "max_steps: 3\n  per_device_train_batch_size: 2\n  adam_epsilon: 1.0e-3\n  \
    eval_strategy: steps\n  eval_steps: 3";
const EVALUATION: &str = "eval_strategy: steps\n  eval_steps: 3";

/// Runs a job on the cores of one CPU host and on those of two of the twin, and compares losses and metrics. The
/// runners find what a daemon would have set.
async fn check(parallel: &str, evaluates: bool) {
    let host = installed::stopped_host(4, "trn1.32xlarge", "");
    let expected = Draft::new(&host, "processors");
    let of_job = |text: String| match evaluates {
        true => text,
        false => text.replace(EVALUATION, "do_eval: false"),
    };
    let text = of_job(job_file(&expected, "cpu", 1, parallel));
    let plain = |_: usize, command: &mut Command| {
        command.envs(CPU_VARIABLES);
        true
    };
    Runners::start_with(&host, &expected, &text, 1, plain).completed().await;

    let found = Draft::new(&host, "neuron");
    let text = of_job(job_file(&found, "neuron", 2, parallel));
    start_on_twin(&host, &found, &text).completed().await;
    let [expected, found] = [&expected, &found].map(|draft| draft.output("out").trainer_state());
    let keys = ["loss", "grad_norm", "eval_loss", "eval_accuracy"];
    for key in &keys[..if evaluates { keys.len() } else { 2 }] {
        assert_close(&expected.series(key), &found.series(key));
    }
}

/// Starts the runners of a job on two cores each of two hosts.
fn start_on_twin(host: &Host, draft: &Draft, job_file: &str) -> Runners {
    let coordinator = format!("127.0.0.1:{}", two_free_ports());
    let variables = installed::environment(host, "instance=trn1.32xlarge");
    Runners::start_with(host, draft, job_file, 2, |rank, command| {
        command.envs(variables.clone()).env("TRAIND_COORDINATOR", &coordinator);
        command.env("NEURON_RT_VISIBLE_CORES", ["0-1", "2-3"][rank]);
        // The other process may compile for longer than the runtime's own limit.
        command.env("NEURON_RT_EXEC_TIMEOUT", "600");
        true
    })
}

#[tokio::test]
async fn two_hosts_train_as_one_cpu_host() {
    if Runners::are_possible() {
        check("{}", false).await;
    }
}

/// Cores that share parameters and layers with those of the other host, or of their own: `scripts/soak/neuron` runs it.
#[tokio::test]
#[ignore = "takes long"]
async fn two_hosts_on_meshes_train_as_one_cpu_host() {
    for parallel in ["{}", "{fsdp: full_shard}", "{tensor: 2, fsdp: shard_optimizer}"] {
        check(parallel, true).await;
    }
}

/// The process of a host is killed between two steps: the other's next one does not wait for it until the limit of a
/// step, and its failure names the lost host. `scripts/soak/neuron` runs it.
#[tokio::test]
#[ignore = "takes long"]
async fn the_loss_of_a_process_ends_the_other() {
    let host = installed::stopped_host(4, "trn1.32xlarge", "");
    let draft = Draft::new(&host, "tiny");
    let gate = host.gate("tiny", 2);
    let text = job_file(&draft, "neuron", 2, "{}").replace(EVALUATION, "do_eval: false");
    let mut runners = start_on_twin(&host, &draft, &text);
    traind_tests::until("both processes have made two steps", || gate.is_reached()).await;
    runners.kill(1);
    gate.open();
    assert!(!runners.ended_on(0).await.success());
    let failure = runners.finished(0).failure.unwrap();
    assert_eq!(
        (failure.reason.as_str(), failure.host.as_deref()),
        (reasons::HOST_LOST, Some("node1"))
    );
    assert!(failure.transient, "{failure:?}");
    assert!(failure.message.contains("host 1 (node1, cores 0 to 1)"), "{failure:?}");
}

/// Another program has the port of the collectives, of several processes and of one.
#[test]
fn a_process_that_meets_no_other_is_explained() {
    let several =
        [("NEURON_PJRT_PROCESSES_NUM_DEVICES", "2,2"), ("NEURON_PJRT_PROCESS_INDEX", "0")];
    for (variables, is_of_one) in [(&several[..], false), (&[], true)] {
        let text = answer_with_port_taken(variables, is_of_one);
        assert!(text.contains("Timeout waiting for incoming connection"), "{text}");
        let meaning = traind_neuron::explain(&text).unwrap();
        assert!(meaning.meaning.contains("NEURON_RT_ROOT_COMM_ID"), "{meaning}");
    }
}

/// A collective that was compiled before needs the port as one does that is compiled now.
#[test]
fn a_program_of_the_cache_takes_the_port_of_the_collectives_too() {
    let mut host = Host::cold(1);
    installed::install(&mut host, "trn1.2xlarge", "");
    let test = |root: &str| {
        let request = json!({
            "platform": "neuron",
            "plugin": installed::plugin(),
            "cores": [0, 1],
            "executables": host.path("executables"),
        });
        run_runner(&host, "test-cores", &request, &[("NEURON_RT_ROOT_COMM_ID", root)])
    };
    let free = test(&format!("127.0.0.1:{}", two_free_ports()));
    assert!(free.status.success(), "{free:?}");
    let compiling = host.path("twin/locks/compiling");
    std::fs::remove_file(&compiling).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let output = test(&taken.local_addr().unwrap().to_string());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("Timeout waiting for incoming"), "{said}");
    assert!(!compiling.exists(), "compiling it again would not help");
}

/// The words of `traind-runner probe` about a collective, in its answer or its error.
fn answer_with_port_taken(variables: &[(&str, &str)], only_collective: bool) -> String {
    let mut host = Host::cold(1);
    installed::install(&mut host, "trn1.2xlarge", "");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let root = taken.local_addr().unwrap().to_string();
    let variables = [variables, &[("NEURON_RT_ROOT_COMM_ID", root.as_str())]].concat();
    let request = json!({
        "platform": "neuron",
        "plugin": installed::plugin(),
        "cores": 2,
        "only_collective": only_collective,
    });
    let output = run_runner(&host, "probe", &request, &variables);
    let said = if only_collective { output.stdout } else { output.stderr };
    String::from_utf8(said).unwrap()
}

/// Runs a command of the runner that reads a request, on two cores whose processes do not wait for each other.
fn run_runner(host: &Host, command: &str, request: &Value, variables: &[(&str, &str)]) -> Output {
    let mut runner = Command::new(traind_tests::traind().with_file_name("traind-runner"));
    runner.arg(command).envs(installed::environment(host, "instance=trn1.2xlarge,meet_ms=20"));
    // The compiler leaves its log there.
    runner.current_dir(host.path(""));
    runner.env("NEURON_INTERNAL_PJRT_C_API_VERSION", "0.81").envs(variables.iter().copied());
    runner.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut runner = runner.spawn().unwrap();
    let mut pipe = runner.stdin.take().unwrap();
    pipe.write_all(format!("{request}\n").as_bytes()).unwrap();
    // A test of cores ends with its pipe, and a probe reads it to its end.
    let pipe = (command == "test-cores").then_some(pipe);
    let output = runner.wait_with_output().unwrap();
    drop(pipe);
    output
}
