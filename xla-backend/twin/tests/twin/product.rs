//! Jobs on the twin as users run them: they watch cores, lose runners, drain the daemon and cancel.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Command, Stdio};

use traind_proto::v1::JobState;
use traind_tests::{Draft, History, Host};

use crate::installed;

fn draft(host: &Host, name: &str) -> Draft {
    Draft::new(host, name)
        .set("resources.platform", "neuron")
        .set("model.config_overrides", "{num_hidden_layers: 1, hidden_dropout_prob: 0.1}")
        .set("train.max_steps", 6)
        .set("train.save_steps", 2)
}

fn weights(draft: &Draft) -> Vec<u8> {
    std::fs::read(draft.path("out/model.safetensors")).unwrap()
}

/// The loss of each step, as it was computed last.
fn last_losses(history: &History) -> BTreeMap<u64, f64> {
    history.steps().into_iter().map(|step| (step.step, step.loss)).collect()
}

async fn assert_no_core_is_held(host: &Host) {
    let cores = host.cores().await;
    assert!(cores.iter().all(|core| core.job_id.is_empty()), "{cores:?}");
}

/// Reads the screen of `traind top` until it has `part`.
fn assert_top_shows(host: &Host, part: &str) {
    let traind = host.traind();
    // `script` gives it a terminal, whose size it does not say.
    let shown = format!("stty rows 30 cols 110; '{}' top", traind.get_program().display());
    let mut script = Command::new("script");
    script.args(["--quiet", "--flush", "--command", &shown, "/dev/null"]).env("TERM", "xterm");
    script.envs(traind.get_envs().filter_map(|(name, value)| Some((name, value?))));
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = script.spawn().unwrap();
    let mut screen = script.stdout.take().unwrap();
    let [rows, columns] = [30, 110].map(|cells| NonZeroU16::new(cells).unwrap());
    let (mut painted, mut bytes) = (vt100::Parser::new(rows, columns, 0), [0; 4096]);
    while !painted.screen().contents().contains(part) {
        let length = screen.read(&mut bytes).unwrap();
        assert!(length > 0, "{}", painted.screen().contents());
        painted.process(&bytes[..length]);
    }
    script.stdin.take().unwrap().write_all(b"q").unwrap();
    script.wait().unwrap();
}

/// Plans for machines that this host is not: `part` is in the plan, or in the reason why there is none.
fn assert_plan(host: &Host, draft: &Draft, options: &str, is_taken: bool, part: &str) {
    let all: Vec<&str> = ["plan", "job.yaml"].into_iter().chain(options.split(' ')).collect();
    let output = host.cli(draft.folder(), &all);
    assert_eq!(output.code == Some(0), is_taken, "{options}: {output:?}");
    let text = if is_taken { &output.stdout } else { &output.stderr };
    assert!(text.contains(part), "{options}: {output:?}");
}

/// Numbers of cores for which AWS documents collectives, and options that are for NeuronCores alone.
#[tokio::test]
async fn plans_are_for_numbers_of_cores_and_platforms_that_exist() {
    let host = installed::host(1, "trn1.2xlarge", "").await;
    let job = draft(&host, "planned");
    std::fs::write(job.path("job.yaml"), &job.job_file).unwrap();
    for (options, is_taken, part) in [
        ("--platform=neuron --device=trn2 --cores=4 --neuron-runtime=2.34", true, "bert"),
        ("--platform=neuron --device=inf2 --cores=8 --hosts=2", true, "bert"),
        ("--platform=neuron --device=trn2 --cores=3", false, "1, 4, 16 or 64 cores of a host"),
        ("--platform=neuron --device=trn1 --cores=16", false, "1, 2, 4, 8 or 32 cores of a host"),
        ("--device=trn1 --cores=3 --hosts=3", false, "9: are 3 of each of 3 hosts: AWS"),
        ("--device=trn1 --cores=8 --hosts=3", true, "bert"),
        ("--platform=neuron --device=h100 --cores=2", false, "has no device h100"),
        ("--platform=cpu --neuron-runtime=2.34", false, "is for NeuronCores"),
        ("--platform=cuda --neuron-runtime=2.34", false, "is for NeuronCores"),
        ("--platform=cpu --device=trn1", false, "has no device trn1"),
        ("--platform=cuda --device=trn1", false, "has no device trn1"),
    ] {
        assert_plan(&host, &job, options, is_taken, part);
    }
}

#[tokio::test]
async fn a_killed_and_drained_job_ends_with_the_same_bits() {
    check_disturbed(1, "trn1.2xlarge", "Trainium1").await;
}

/// Kills and drains jobs on several cores: `scripts/soak/neuron` runs it.
#[tokio::test]
#[ignore = "takes minutes"]
async fn killed_and_drained_jobs_on_several_cores_end_with_the_same_bits() {
    let of_trn1 = [2, 8, 32].map(|cores| (cores, "trn1.32xlarge", "Trainium1"));
    for (cores, instance, device) in of_trn1.into_iter().chain([(4, "trn2.48xlarge", "Trainium2")])
    {
        check_disturbed(cores, instance, device).await;
    }
}

/// Runs a job that is shown by `traind cores`, killed with its runner, then drained with the daemon: its bits are those
/// of an undisturbed job.
async fn check_disturbed(count: u32, instance: &str, device: &str) {
    let mut host = installed::host(count, instance, "").await;
    let of_count = |name: &str| {
        draft(&host, name)
            .set("resources.cores", count)
            .set("train.per_device_train_batch_size", (8 / count).max(1))
    };
    let whole = of_count("whole");
    let expected = host.complete(&whole).await;

    let disturbed = of_count("disturbed").set("resources.max_restarts", 1);
    let killed = host.gate("disturbed", 3);
    let drained = host.gate("disturbed", 5);
    let job = host.create(&disturbed).await.unwrap();
    host.until_at(&job.id, &killed).await;
    let cores = host.cli(disturbed.folder(), &["cores"]);
    assert_eq!(cores.code, Some(0), "{cores:?}");
    assert!(cores.stdout.contains(device) && cores.stdout.contains(&job.id), "{cores:?}");
    assert_top_shows(&host, &job.id);
    let saved = disturbed.path("out/checkpoint-2/manifest.json");
    traind_tests::until("the checkpoint is whole", || saved.exists()).await;
    assert!(host.kill_runner(&job.id, 1));
    killed.open();
    host.until_at(&job.id, &drained).await;
    let output = host.cli(disturbed.folder(), &["drain"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    host.wait_for_end().await;
    drained.open();
    host.start().await;
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.state(), JobState::Completed, "{:?}", history.job);
    assert_eq!(history.resumed().len(), 2, "{:?}", history.event_names());
    assert_eq!(last_losses(&history), last_losses(&expected));
    assert_eq!(weights(&disturbed), weights(&whole));
    assert_no_core_is_held(&host).await;
}

/// The daemon is killed while a job runs. The next one finds the runner, which has its cores and goes on.
#[tokio::test]
async fn a_job_whose_daemon_is_killed_is_adopted_and_ends_with_the_same_bits() {
    let mut host = installed::host(2, "trn1.2xlarge", "").await;
    let on_two = |name: &str| draft(&host, name).set("resources.cores", 2);
    let (whole, adopted) = (on_two("whole"), on_two("adopted"));
    let expected = host.complete(&whole).await;

    let gate = host.gate("adopted", 3);
    let job = host.create(&adopted).await.unwrap();
    host.until_at(&job.id, &gate).await;
    host.kill_daemon();
    host.start().await;
    let cores = host.cores().await;
    assert!(cores.iter().all(|core| core.job_id == job.id), "{cores:?}");
    gate.open();
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.state(), JobState::Completed, "{:?}", history.job);
    assert_eq!((history.job.attempt, history.resumed().len()), (1, 0), "{:?}", history.job);
    assert_eq!(last_losses(&history), last_losses(&expected));
    assert_eq!(weights(&adopted), weights(&whole));
    assert_no_core_is_held(&host).await;
}

#[test]
fn the_doctor_executes_the_compiler() {
    let host = installed::stopped_host(1, "trn1.2xlarge", "");
    let mut command = host.traind();
    command.args(["doctor", "--platform", "neuron"]);
    command.envs(installed::environment(&host, "instance=trn1.2xlarge"));
    let output = traind_tests::CommandOutput::of(command.output().unwrap());
    assert!(output.stdout.contains("NeuronX Compiler version 2.27.5334"), "{output:?}");
}

/// Waits until a compiler has started, and returns its process.
async fn compiler_started(host: &Host) -> u32 {
    let started = host.path("twin/locks/compiling");
    let pid = || std::fs::read_to_string(&started).ok()?.trim().parse().ok();
    traind_tests::until("the compiler starts", || pid().is_some()).await;
    let pid = pid().unwrap();
    std::fs::remove_file(started).unwrap();
    pid
}

async fn assert_ended(host: &Host, compiler: u32) {
    traind_tests::until("the compiler ends", || !traind_tests::alive(compiler)).await;
    assert_no_core_is_held(host).await;
}

/// A compile takes minutes: it ends with the job that is cancelled, loses its runner, reaches its time limit or is
/// drained, and so does the compiler.
#[tokio::test]
async fn a_job_ends_in_the_middle_of_a_compile() {
    let mut host = installed::cold_host(1, "trn1.2xlarge", "compile_ms=3600000").await;
    let slow = draft(&host, "slow");
    let cancelled = host.create(&slow).await.unwrap();
    // The first one compiles a program that tries the core.
    let compiler = compiler_started(&host).await;
    let phase = || host.cli(slow.folder(), &["cores"]).stdout;
    traind_tests::until("the core compiles", || phase().contains("compile")).await;
    assert_top_shows(&host, "compile");
    host.cancel(&cancelled.id).await;
    assert_eq!(host.watch(&cancelled.id).await.job.state(), JobState::Cancelled);
    assert_ended(&host, compiler).await;

    let killed = host.create(&draft(&host, "killed")).await.unwrap();
    let compiler = compiler_started(&host).await;
    assert!(host.kill_runner(&killed.id, 1));
    let failure = host.watch(&killed.id).await.job.failure.unwrap();
    assert_eq!(failure.reason, "RUNNER_DIED", "{failure:?}");
    assert_ended(&host, compiler).await;

    let limited = draft(&host, "limited").set("resources.max_run_seconds", 1);
    let limited = host.create(&limited).await.unwrap();
    let compiler = compiler_started(&host).await;
    let history = host.watch(&limited.id).await;
    assert_eq!(history.job.failure.unwrap().reason, "MAX_RUN_EXCEEDED");
    assert_ended(&host, compiler).await;

    let drained = draft(&host, "drained");
    let job = host.create(&drained).await.unwrap();
    let compiler = compiler_started(&host).await;
    let output = host.cli(drained.folder(), &["drain"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    host.wait_for_end().await;
    traind_tests::until("the compiler ends", || !traind_tests::alive(compiler)).await;
    installed::set_options(&host, "instance=trn1.2xlarge,compile_code=EOOM002");
    host.start().await;
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.failure.unwrap().reason, "COMPILE_FAILED", "it is started again");
}
