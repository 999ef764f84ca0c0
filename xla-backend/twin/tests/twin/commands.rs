//! Commands that take NeuronCores without a daemon: they choose free ones, and their errors are explained as those of
//! jobs are.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use traind_tests::{CommandOutput, Draft, Host};

use crate::installed;

const INSTANCE: &str = "trn1.2xlarge";

/// Each command that runs on cores, with its files.
const COMMANDS: [&[&str]; 3] = [
    &["generate", "--max-new-tokens=2", "gpt2", "a"],
    &["embed", "bert", "texts.csv", "--cores=1"],
    &["mine", "bert", "texts.csv", "--cores=1"],
];

fn run(host: &Host, arguments: &[&str], options: &str) -> CommandOutput {
    CommandOutput::of(command(host, arguments, options).output().unwrap())
}

fn command(host: &Host, arguments: &[&str], options: &str) -> Command {
    let mut command = host.traind();
    command.args(arguments).arg("--platform=neuron").current_dir(host.path(""));
    command.envs(installed::environment(host, &format!("instance={INSTANCE},{options}")));
    command
}

/// Starts a command, and waits until it says `part`.
fn started(host: &Host, arguments: &[&str], part: &str) -> Child {
    let mut command = command(host, arguments, "");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut said, mut line) = (BufReader::new(child.stderr.as_mut().unwrap()), String::new());
    while !line.contains(part) {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "{arguments:?} ended");
    }
    child
}

fn write_files(host: &Host) {
    for (name, fixture) in [("gpt2", "gpt2-causal-lm"), ("bert", "bert-sequence-classification")] {
        traind_tests::model::write_fixture(&host.path(name), fixture);
    }
    fs::write(host.path("texts.csv"), "query,positive\na,b\nc,d\n").unwrap();
}

/// A process with a core, which the twin's tools list.
fn hold(host: &Host, core: u32) -> File {
    hold_as(host, core, std::process::id())
}

/// Holds a core as a process with this number, which they list as long as it lives.
fn hold_as(host: &Host, core: u32, process: u32) -> File {
    let locks = host.path("twin/locks");
    fs::create_dir_all(&locks).unwrap();
    let mut lock = File::create(locks.join(format!("core{core}"))).unwrap();
    lock.lock().unwrap();
    write!(lock, "{process}").unwrap();
    lock
}

/// The daemon's job has the first core of two.
#[tokio::test]
async fn commands_take_cores_that_are_free_and_name_the_holders_of_others() {
    let host = installed::host(1, INSTANCE, "").await;
    write_files(&host);
    let gate = host.gate("holder", 1);
    let draft = Draft::new(&host, "holder")
        .set("resources.platform", "neuron")
        .set("train.max_steps", 2)
        .set("train.do_eval", false);
    let job = host.create(&draft).await.unwrap();
    host.until_at(&job.id, &gate).await;
    let [generate, others @ ..] = COMMANDS;
    let output = run(&host, generate, "");
    assert_eq!(output.code, Some(0), "{output:?}");
    let _other = hold(&host, 1);
    for command in [generate].into_iter().chain(others) {
        let output = run(&host, command, "");
        assert_eq!(output.code, Some(1), "{output:?}");
        let own = format!("is held by process {}", std::process::id());
        for part in ["no NeuronCore is free", &format!("core 0 is held by job {}", job.id), &own] {
            assert!(output.stderr.contains(part), "{command:?}: {output:?}");
        }
    }
    gate.open();
    host.watch(&job.id).await;
}

/// An admin tests the cores between jobs. A command waits for them, and no process of the test is left behind.
#[tokio::test]
async fn commands_wait_while_the_daemon_tests_the_cores() {
    let mut host = Host::cold(2);
    installed::install(&mut host, INSTANCE, "compile_ms=3600000");
    host.add_options(&["--test-cores-every=0"]);
    host.start().await;
    write_files(&host);
    let compiling = host.path("twin/locks/compiling");
    for command in COMMANDS {
        let mut test = host.traind();
        let mut test = test.args(["cores", "test"]).stdout(Stdio::null()).spawn().unwrap();
        let compiler = || fs::read_to_string(&compiling).ok()?.parse::<u32>().ok();
        traind_tests::until("the test compiles", || compiler().is_some()).await;
        let compiler = compiler().unwrap();
        fs::remove_file(&compiling).unwrap();
        let mut waiting = started(&host, command, "cores 0-1 are tested by the daemon: waiting");
        let cores = host.cli(&host.path(""), &["cores"]);
        assert!(cores.stdout.contains(" now"), "{cores:?}");
        // It ends with the command that wants it.
        test.kill().unwrap();
        test.wait().unwrap();
        assert!(waiting.wait().unwrap().success(), "{command:?}");
        traind_tests::until("the compiler ends", || !traind_tests::alive(compiler)).await;
        let _ = fs::remove_file(&compiling);
    }
}

/// A compile takes minutes: the programs that try cores, before each job and between jobs, are compiled once.
#[tokio::test]
async fn cores_are_tried_and_tested_by_programs_of_the_cache() {
    let host = installed::cold_host(2, INSTANCE, "").await;
    let compiling = host.path("twin/locks/compiling");
    let test = || {
        let output = host.cli(&host.path(""), &["cores", "test"]);
        assert!(output.code == Some(0) && output.stdout.contains("passed"), "{output:?}");
    };
    let job = async |name: &str| {
        let job = Draft::new(&host, name)
            .set("resources.platform", "neuron")
            .set("resources.cores", 2)
            .set("model.config_overrides", "{num_hidden_layers: 1}")
            .set("train.max_steps", 1)
            .set("train.do_eval", false);
        host.complete(&job).await;
    };
    test();
    job("first").await;
    fs::remove_file(&compiling).unwrap();
    test();
    job("second").await;
    assert!(!compiling.exists(), "nothing is compiled again");
    // Sandboxed jobs share the other cache with the daemon's user.
    let own = fs::read_dir(host.path("state/core-tests/executables")).unwrap().count();
    assert!(own >= 3, "{own} programs");
}

/// A process that no tool lists takes the core between the choice and the start.
#[test]
fn commands_choose_again_where_another_process_was_faster() {
    let mut host = Host::cold(1);
    installed::install(&mut host, INSTANCE, "");
    write_files(&host);
    for command in COMMANDS {
        let core = hold_as(&host, 1, u32::MAX);
        let mut child = started(&host, command, "has taken core 1: choosing again");
        drop(core);
        assert!(child.wait().unwrap().success(), "{command:?}");
    }
}

/// Nobody says which cores are free: neither a tool nor a daemon.
#[test]
fn errors_of_commands_have_code_core_meaning_and_remedy() {
    let mut host = Host::cold(1);
    installed::install(&mut host, INSTANCE, "");
    write_files(&host);
    fs::remove_file(host.path("twin/bin/neuron-ls")).unwrap();
    let _other = hold(&host, 0);
    // The runtime's words are in the plugin's error, or on standard error alone.
    for (command, options) in COMMANDS.into_iter().flat_map(|it| [(it, ""), (it, "errors=brief")]) {
        let output = run(&host, command, options);
        assert_eq!(output.code, Some(1), "{output:?}");
        for part in
            ["NRT 4 (RESOURCE) on lnc0-lnc0: ", "end the other process", "Requested:lnc0-lnc0"]
        {
            assert!(output.stderr.contains(part), "{command:?} with {options}: {output:?}");
        }
    }
    let old = run(&host, COMMANDS[0], "version_2=true");
    assert!(old.stderr.contains("libneuronxla 3.0 or newer"), "{old:?}");
}

/// Switches are checked before a daemon starts, and before a command opens a core.
#[test]
fn values_of_switches_that_are_not_understood_are_refused() {
    let mut host = Host::cold(1);
    installed::install(&mut host, INSTANCE, "");
    write_files(&host);
    for arguments in
        [&["serve", "--platform=cpu", "--state-dir=state"][..], COMMANDS[0], COMMANDS[1]]
    {
        let mut command = host.traind();
        command.args(arguments).current_dir(host.path(""));
        command.envs(installed::environment(&host, &format!("instance={INSTANCE}")));
        if arguments[0] != "serve" {
            command.arg("--platform=neuron");
        }
        command.env("TRAIND_NEURON_DONATION", "of");
        let output = CommandOutput::of(command.output().unwrap());
        let expect = "TRAIND_NEURON_DONATION is \"of\", and its values are on and off";
        assert!(output.code != Some(0) && output.stderr.contains(expect), "{output:?}");
    }
}
