//! `scripts/twin/run`: a job on the twin by one command.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use traind_tests::{CommandOutput, Draft, Host};

use crate::installed;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/twin/run");
const SHELL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/twin/shell");

/// Runs a job's script.
fn run(host: &Host, arguments: &[&str]) -> CommandOutput {
    run_script(host, SCRIPT, arguments)
}

/// Runs a script with the programs and the plugin under test.
fn run_script(host: &Host, script: &str, arguments: &[&str]) -> CommandOutput {
    let programs = host.path("programs");
    fs::create_dir_all(&programs).unwrap();
    let traind = traind_tests::traind();
    let runner = traind.with_file_name("traind-runner");
    for (name, program) in [
        ("traind", traind.as_path()),
        ("traind-runner", &runner),
        ("neuron-twin", Path::new(installed::PROGRAM)),
        ("libtraind_twin.so", &installed::plugin()),
    ] {
        let _ = symlink(program, programs.join(name));
    }
    let mut command = Command::new(fs::canonicalize(script).unwrap());
    command.current_dir(host.path("tiny")).args(arguments).env("TRAIND_TWIN_BIN_DIR", programs);
    command.env("TRAIND_PLUGIN_CPU", host.plugin()).env("TMPDIR", host.path(""));
    CommandOutput::of(command.output().unwrap())
}

#[test]
fn the_script_runs_a_job_and_leaves_nothing() {
    let host = Host::cold(1);
    let draft = Draft::new(&host, "tiny");
    fs::write(draft.path("job.yaml"), &draft.job_file).unwrap();
    let before = fs::read_dir(host.path("")).unwrap().count() + 1;
    let job = "job.yaml";
    let small = [
        "train.max_steps=3",
        "train.do_eval=false",
        "train.optim=sgd",
        "model.config_overrides={num_hidden_layers: 1}",
    ];
    let small = small.map(|setting| ["--set", setting]);
    let arguments = [&["--instance", "trn2.48xlarge"], &small[..].concat()[..], &[job]].concat();
    let output = run(&host, &arguments);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stderr.contains("completed"), "{output:?}");
    assert_eq!(draft.output("out").trainer_state().series("loss").len(), 3);

    let arguments = ["--option", "compile_code=EOOM002", "--set", "output_dir=other", job];
    let output = run(&host, &arguments);
    assert_ne!(output.code, Some(0), "{output:?}");
    let text = format!("{}{}", output.stdout, output.stderr);
    assert!(text.contains("NCC_EOOM002"), "{text}");
    assert_eq!(fs::read_dir(host.path("")).unwrap().count(), before);
}

/// The daemon is killed in the middle of a job, and never started again by the user: nothing of both is left.
#[test]
fn a_shell_has_a_daemon_that_ends_with_it() {
    const COMMANDS: &str = "set -e
        job=$(traind submit job.yaml --set resources.platform=neuron --set train.max_steps=100000)
        traind cores; traind cores | grep -q Trainium2
        until [ -e \"$TMPDIR\"/tmp.*/state/jobs/*/runner.log ]; do sleep 0.1; done
        kill -9 $(cat \"$TMPDIR\"/tmp.*/daemon)
        serve-twin & until traind ls 2> /dev/null | grep -q running; do sleep 0.1; done
        traind ls
        kill -9 $(cat \"$TMPDIR\"/tmp.*/daemon)";
    let host = Host::cold(1);
    let draft = Draft::new(&host, "tiny");
    fs::write(draft.path("job.yaml"), &draft.job_file).unwrap();
    let before = fs::read_dir(host.path("")).unwrap().count() + 1;
    let arguments = ["--instance", "trn2.48xlarge", "sh", "-c", COMMANDS];
    let output = run_script(&host, SHELL, &arguments);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("running"), "{output:?}");
    assert_eq!(fs::read_dir(host.path("")).unwrap().count(), before);
    let folder = host.path("").to_str().unwrap().to_owned();
    let left = processes_in(&folder);
    assert!(left.is_empty(), "{left:?}");
}

/// The processes that work in a folder, such as runners in their jobs' folders.
fn processes_in(folder: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let current = processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
    let current = current.map(|path| path.to_string_lossy().into_owned());
    current.filter(|path| path.starts_with(folder)).collect()
}

#[test]
fn the_scripts_help_has_all_options() {
    let host = Host::cold(1);
    let _folder = Draft::new(&host, "tiny");
    let output = run(&host, &["--help"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    for name in ["instance=trn1.2xlarge", "compile_code=", "fail_status=0", "--set"] {
        assert!(output.stdout.contains(name) || output.stderr.contains(name), "{output:?}");
    }
    assert!(output.stdout.starts_with("usage: scripts/twin/run JOB.yaml"), "{output:?}");
}

/// Files of the host that the twin has too are those of the twin.
#[test]
fn the_doctor_of_a_shell_checks_the_twins_host() {
    let host = Host::cold(1);
    let _folder = Draft::new(&host, "tiny");
    let doctor = |options: &[&str]| {
        let command = ["traind", "doctor", "--platform", "neuron"];
        run_script(&host, SHELL, &[options, &command].concat())
    };
    let output = doctor(&["--instance", "trn2.48xlarge"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    for part in [
        "TRAIND_HOST_ROOT has files",
        "ok       driver: 2.30.2.0",
        "ok       driver and runtime: 2.30 and 2.34",
        "ok       device nodes: 16 devices",
        "ok       libnrt.so.1: /opt/aws/neuron/lib/libnrt.so.1",
        "ok       libnccom.so.2",
        "NeuronX Compiler version 2.27.5334",
        "ok       libneuronxla: 3.0.5356.0",
    ] {
        assert!(output.stdout.contains(part), "{part}: {output:?}");
    }
    let old = doctor(&["--option", "driver=2.26.5.0"]);
    assert_eq!(old.code, Some(1), "{old:?}");
    assert!(old.stdout.contains("missing  driver and runtime: 2.26 and 2.34"), "{old:?}");
    let old = doctor(&["--option", "version_2=true"]);
    assert!(old.stdout.contains("missing  libneuronxla: 2.2.17544.0"), "{old:?}");
}

/// The twin knows the values, and refuses others before a folder is made.
#[test]
fn values_of_options_that_the_twin_does_not_have_are_refused() {
    let host = Host::cold(1);
    let _folder = Draft::new(&host, "tiny");
    fs::write(host.path("tiny/job.yaml"), "name: a\n").unwrap();
    let left = || fs::read_dir(host.path("")).unwrap().count();
    let before = left() + 1;
    for (script, arguments) in [(SCRIPT, &["job.yaml"][..]), (SHELL, &["true"])] {
        for (value, mistake) in [
            ("kind=NC_v99", "kind is not 'NC_v99', but NC_v2 or "),
            ("driver=newest", "driver is not 'newest', but a version"),
            ("next_sdk=yes", "next_sdk is not 'yes', but no or serves or strict"),
            ("instance=p5.48xlarge", "instance is not 'p5.48xlarge', but trn1.2xlarge or "),
        ] {
            let wrong = run_script(&host, script, &[&["--option", value], arguments].concat());
            assert_eq!(wrong.code, Some(2), "{value}: {wrong:?}");
            assert!(wrong.stderr.contains(mistake), "{value}: {wrong:?}");
            assert_eq!((wrong.stdout.as_str(), left()), ("", before), "{value}");
        }
    }
}

/// The script refuses options before anything is built or started.
#[test]
fn each_wrong_call_of_the_script_names_the_mistake_and_has_the_usage() {
    let host = Host::cold(1);
    let draft = Draft::new(&host, "tiny");
    fs::write(draft.path("job.yaml"), &draft.job_file).unwrap();
    for (arguments, mistake) in [
        (&[][..], "a job file is needed"),
        (&["/nowhere.yaml"], "there is no job file /nowhere.yaml"),
        (&["job.yaml", "other.yaml"], "not 'job.yaml' and 'other.yaml'"),
        (&["job.yaml", "--instanse", "trn1.2xlarge"], "unknown option --instanse"),
        (&["job.yaml", "--instance"], "--instance needs a value"),
        (&["job.yaml", "--option"], "--option needs a value"),
        (&["job.yaml", "--option", ""], "--option needs a value"),
        (&["job.yaml", "--option", "chlo"], "--option needs NAME=VALUE, not 'chlo'"),
        (&["job.yaml", "--option", "fail=1"], "the twin has no option fail"),
        (&["job.yaml", "--set"], "--set needs a value"),
        (&["job.yaml", "--set", "seed"], "--set needs FIELD=VALUE, not 'seed'"),
    ] {
        let wrong = run(&host, arguments);
        assert_eq!(wrong.code, Some(2), "{arguments:?}: {wrong:?}");
        assert!(wrong.stderr.contains(mistake), "{arguments:?}: {wrong:?}");
        assert!(
            wrong.stderr.contains("usage: scripts/twin/run JOB.yaml"),
            "{arguments:?}: {wrong:?}"
        );
        assert_eq!(wrong.stdout, "", "{arguments:?}");
    }
}
