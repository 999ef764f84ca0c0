//! Whole jobs: the same losses as on CPU devices, and failures that name code, meaning and remedy.

use traind_tests::{CommandOutput, Draft, Host};

use crate::installed;

fn draft(host: &Host, cores: u32) -> Draft {
    Draft::new(host, "tiny")
        .set("resources.cores", cores)
        .set("train.max_steps", 4)
        .set("model.config_overrides", "{num_hidden_layers: 1}")
}

/// The losses of a job on CPU devices without kernels of traind's, which other platforms lack too.
async fn losses_on_cpu(cores: u32) -> Vec<f64> {
    let off = vec![("TRAIND_KERNELS", "off".to_owned())];
    let host = Host::started_with_environment(cores, off).await;
    let history = host.complete(&draft(&host, cores)).await;
    history.steps().iter().map(|step| step.loss).collect()
}

async fn losses_on_twin(cores: u32, instance: &str, options: &str) -> Vec<f64> {
    let host = installed::host(cores, instance, options).await;
    let history = host.complete(&draft(&host, cores).set("resources.platform", "neuron")).await;
    installed::assert_compiled(&host, &history);
    history.steps().iter().map(|step| step.loss).collect()
}

fn assert_equal(cpu: &[f64], twin: &[f64]) {
    assert!(!cpu.is_empty() && cpu.len() == twin.len(), "{cpu:?} {twin:?}");
    for (cpu, twin) in cpu.iter().zip(twin) {
        assert!((cpu - twin).abs() <= 1e-6 * cpu.abs().max(1.0), "{cpu} {twin}");
    }
}

#[tokio::test]
async fn losses_are_those_of_cpu_devices() {
    let cpu = losses_on_cpu(1).await;
    assert_equal(&cpu, &losses_on_twin(1, "trn2.48xlarge", "chlo=true,analysis=true").await);
}

#[tokio::test]
async fn losses_of_two_cores_are_those_of_cpu_devices() {
    let cpu = losses_on_cpu(2).await;
    assert_equal(&cpu, &losses_on_twin(2, "trn1.2xlarge", "reversed=true").await);
}

/// Devices that compute integers in float32, and plugins whose donation does not work: other programs compute the same,
/// and the job's record says so.
#[tokio::test]
async fn devices_that_do_less_train_the_same() {
    let job = |host: &Host| {
        let dropout = "{num_hidden_layers: 1, hidden_dropout_prob: 0.1}";
        draft(host, 1).set("model.config_overrides", dropout).set("train.do_eval", false)
    };
    let cpu = crate::families::cpu_host(1).await;
    let expected = cpu.complete(&job(&cpu)).await;
    let losses = |history: &traind_tests::History| -> Vec<f64> {
        history.steps().iter().map(|step| step.loss).collect()
    };
    for (options, warnings) in
        [("inexact=true,donation=garbage", [1, 1]), ("donation=refused", [0, 1])]
    {
        let host = installed::host(1, "trn1.2xlarge", options).await;
        let history = host.complete(&job(&host).set("resources.platform", "neuron")).await;
        assert_equal(&losses(&expected), &losses(&history));
        let found = ["INTEGERS_INEXACT", "DONATION_OFF"].map(|code| history.warnings(code).len());
        assert_eq!(found, warnings, "{options}: {:?}", history.job.warnings);
    }
}

#[tokio::test]
async fn generate_reads_its_answer_among_the_compilers_dots() {
    let host = installed::host(1, "trn1.2xlarge", "").await;
    let folder = host.path("model");
    traind_tests::model::write_fixture(&folder, "gpt2-causal-lm");
    let mut command = host.traind();
    command.args(["generate", "--platform=neuron", "--max-new-tokens=2", "--output=json"]);
    command.current_dir(host.path(""));
    command.arg(&folder).arg("a").envs(installed::environment(&host, "instance=trn1.2xlarge"));
    let output = CommandOutput::of(command.output().unwrap());
    assert_eq!(output.code, Some(0), "{output:?}");
    let texts: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(texts[0]["tokens"].as_array().unwrap().len(), 2, "{texts}");
}
