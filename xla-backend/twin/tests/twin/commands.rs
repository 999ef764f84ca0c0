//! Commands that take NeuronCores without a daemon: they choose free ones, and their errors are explained as those of
//! jobs are.

use std::fs::{self, File};
use std::io::Write;

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
    let mut command = host.traind();
    command.args(arguments).arg("--platform=neuron").current_dir(host.path(""));
    command.envs(installed::environment(host, &format!("instance={INSTANCE},{options}")));
    CommandOutput::of(command.output().unwrap())
}

fn write_files(host: &Host) {
    for (name, fixture) in [("gpt2", "gpt2-causal-lm"), ("bert", "bert-sequence-classification")] {
        traind_tests::model::write_fixture(&host.path(name), fixture);
    }
    fs::write(host.path("texts.csv"), "query,positive\na,b\nc,d\n").unwrap();
}

/// A process with a core, which the twin's tools list.
fn hold(host: &Host, core: u32) -> File {
    let locks = host.path("twin/locks");
    fs::create_dir_all(&locks).unwrap();
    let mut lock = File::create(locks.join(format!("core{core}"))).unwrap();
    lock.lock().unwrap();
    write!(lock, "{}", std::process::id()).unwrap();
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

/// Nobody says which cores are free: neither a tool nor a daemon.
#[test]
fn errors_of_commands_have_code_core_meaning_and_remedy() {
    let mut host = Host::cold(1);
    installed::install(&mut host, INSTANCE, "");
    write_files(&host);
    fs::remove_file(host.path("twin/bin/neuron-ls")).unwrap();
    let _other = hold(&host, 0);
    for command in COMMANDS {
        let output = run(&host, command, "");
        assert_eq!(output.code, Some(1), "{output:?}");
        for part in
            ["NRT 4 (RESOURCE) on lnc0-lnc0: ", "end the other process", "Requested:lnc0-lnc0"]
        {
            assert!(output.stderr.contains(part), "{command:?}: {output:?}");
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
