//! Ways around what devices cannot do, and texts that are generated without a daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use traind_proto::v1::{CompileSource, JobState};
use traind_tests::{CommandOutput, Draft, Host};

use crate::installed;

fn assert_equal(cpu: &[f64], twin: &[f64]) {
    assert!(!cpu.is_empty() && cpu.len() == twin.len(), "{cpu:?} {twin:?}");
    for (cpu, twin) in cpu.iter().zip(twin) {
        assert!((cpu - twin).abs() <= 1e-6 * cpu.abs().max(1.0), "{cpu} {twin}");
    }
}

/// Devices that compute integers in float32, and plugins whose donation does not work: other programs compute the same,
/// and the job's record says so.
#[tokio::test]
async fn devices_that_do_less_train_the_same() {
    let job = |host: &Host, name: &str| {
        Draft::new(host, name)
            .set("train.max_steps", 4)
            .set("model.config_overrides", "{num_hidden_layers: 1, hidden_dropout_prob: 0.1}")
            .set("train.do_eval", false)
    };
    let cpu = crate::families::cpu_host(1).await;
    let expected = cpu.complete(&job(&cpu, "cpu")).await;
    let losses = |history: &traind_tests::History| -> Vec<f64> {
        history.steps().iter().map(|step| step.loss).collect()
    };
    let host = installed::host(1, "trn1.2xlarge", "").await;
    installed::set_options(&host, "instance=trn1.2xlarge,inexact=true,donation=garbage");
    let history = host.complete(&job(&host, "less").set("resources.platform", "neuron")).await;
    assert_equal(&losses(&expected), &losses(&history));
    let found = ["INTEGERS_INEXACT", "DONATION_OFF"].map(|code| history.warnings(code).len());
    assert_eq!(found, [1, 1], "{:?}", history.job.warnings);
}

/// Programs that try integers and donation before a job's own.
const PROGRAMS_THAT_TRY: usize = 2;

/// The cache has executables under the right names that another version of the plugin wrote, which a plugin may not
/// tell: they are refused, compiled anew, and replaced.
#[tokio::test]
async fn executables_of_another_version_are_compiled_anew() {
    let host = installed::cold_host(1, "trn1.2xlarge", "").await;
    let run = async |name: &str| {
        let job = Draft::new(&host, name)
            .set("resources.platform", "neuron")
            .set("train.max_steps", 3)
            .set("train.do_eval", false)
            .set("model.config_overrides", "{num_hidden_layers: 1}");
        let history = host.complete(&job).await;
        let sources: Vec<_> = history.compiled().iter().map(|it| it.source()).collect();
        let losses: Vec<f64> = history.steps().iter().map(|step| step.loss).collect();
        (sources, losses)
    };
    let (programs, losses) = run("first").await;
    let executables = host.path("cache/executables");
    let stamped = give_other_versions(&executables);
    assert_eq!(stamped, programs.len() + PROGRAMS_THAT_TRY);
    let (sources, again) = run("again").await;
    assert_eq!(sources, vec![CompileSource::Compiled; programs.len()]);
    assert_eq!(again, losses);
    let (sources, last) = run("last").await;
    assert_eq!(sources, vec![CompileSource::Disk; programs.len()]);
    assert_eq!(last, losses);
    assert_eq!(give_other_versions(&executables), stamped, "all were replaced");
}

/// Gives whole executables the version of another plugin. Returns their number.
fn give_other_versions(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let executables = entries.filter(|path| path.extension().is_some_and(|it| it == "xla"));
    let give = |path: PathBuf| {
        let content = fs::read(&path).unwrap();
        let executable = &content[blake3::OUT_LEN..];
        let (line, rest) =
            executable.split_at(executable.iter().position(|it| *it == b'\n').unwrap());
        let other = String::from_utf8(line.to_vec()).unwrap().replace("5356", "3854");
        assert_ne!(other.as_bytes(), line);
        let executable = [other.as_bytes(), rest].concat();
        let whole = [&blake3::hash(&executable).as_bytes()[..], &executable].concat();
        fs::write(&path, whole).unwrap();
    };
    executables.map(give).count()
}

/// Its programs are compiled while another job has the core, and not again when it starts.
#[tokio::test]
async fn a_waiting_job_is_compiled_without_cores() {
    let mut host = installed::stopped_host(1, "trn1.2xlarge", "");
    let options = "instance=trn1.2xlarge,compiles_without_cores=true";
    let mut variables = installed::environment(&host, options);
    variables.push(("TRAIND_NEURON_PREPARE".to_owned(), "on".to_owned()));
    host.set_environment(variables);
    host.start().await;
    let job = |name: &str, overrides: &str| {
        Draft::new(&host, name)
            .set("resources.platform", "neuron")
            .set("train.max_steps", 3)
            .set("train.do_eval", false)
            .set("model.config_overrides", format!("{{num_hidden_layers: 1{overrides}}}"))
    };
    let gate = host.gate("first", 1);
    let first = host.create(&job("first", "")).await.unwrap();
    host.until_at(&first.id, &gate).await;
    // Nobody has compiled its programs before.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let second =
        host.create(&job("second", &format!(", layer_norm_eps: 1.{now}e-7"))).await.unwrap();
    // Created, waiting, prepared.
    host.until(&second.id, |job| job.last_sequence >= 3).await;
    gate.open();
    let history = host.watch(&second.id).await;
    assert_eq!(history.job.state(), JobState::Completed, "{}", host.runner_log(&second.id));
    let [prepared] = history.prepared()[..] else { panic!("{:?}", history.events) };
    assert!(prepared.compiled > 0, "{prepared:?}");
    let sources: Vec<_> = history.compiled().iter().map(|it| it.source()).collect();
    assert!(sources.iter().all(|source| *source == CompileSource::Disk), "{sources:?}");
}

#[tokio::test]
async fn generate_reads_its_answer_among_the_compilers_dots() {
    let mut host = Host::cold(1);
    installed::install(&mut host, "trn1.2xlarge", "");
    let folder = host.path("model");
    traind_tests::model::write_fixture(&folder, "gpt2-causal-lm");
    let mut command = host.traind();
    command.args(["generate", "--platform=neuron", "--max-new-tokens=2", "--output=json"]);
    // The compiler leaves its files elsewhere, and flags for GPUs do not reach the plugin.
    let current = host.path("current");
    fs::create_dir(&current).unwrap();
    command.current_dir(&current).env("XLA_FLAGS", "--xla_gpu_deterministic_ops=true");
    command.arg("../model").arg("a").envs(installed::environment(&host, "instance=trn1.2xlarge"));
    let output = CommandOutput::of(command.output().unwrap());
    assert_eq!(output.code, Some(0), "{output:?}");
    let texts: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(texts[0]["tokens"].as_array().unwrap().len(), 2, "{texts}");
    assert_eq!(fs::read_dir(current).unwrap().count(), 0);
}

/// Rounds float32 to bfloat16 up or down by the job's seed: near the losses of the nearest, and the same bits again.
/// `scripts/soak/neuron` runs it.
#[tokio::test]
#[ignore = "takes long"]
async fn stochastic_rounding_follows_the_jobs_seed() {
    let mut host = installed::stopped_host(1, "trn1.2xlarge", "");
    let job = |host: &Host, name: &str| {
        Draft::new(host, name)
            .set("resources.platform", "neuron")
            .set("train.bf16", true)
            .set("train.max_steps", 4)
            .set("model.config_overrides", "{num_hidden_layers: 1}")
    };
    let losses = |history: &traind_tests::History| -> Vec<f64> {
        history.steps().iter().map(|step| step.loss).collect()
    };
    host.start().await;
    let nearest = losses(&host.complete(&job(&host, "nearest")).await);
    host.kill_daemon();
    let mut variables = installed::environment(&host, "instance=trn1.2xlarge");
    variables.push(("NEURON_RT_STOCHASTIC_ROUNDING_EN".to_owned(), "1".to_owned()));
    host.set_environment(variables);
    host.start().await;
    let once = losses(&host.complete(&job(&host, "once")).await);
    let again = losses(&host.complete(&job(&host, "again")).await);
    assert_eq!(once, again);
    assert_ne!(once, nearest);
    for (one, other) in once.iter().zip(&nearest) {
        assert!((one - other).abs() < 0.1 * other.abs(), "{once:?} {nearest:?}");
    }
}
