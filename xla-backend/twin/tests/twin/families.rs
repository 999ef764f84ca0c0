//! Jobs of all kinds on the twin, each beside the same job on CPU devices: losses, metrics, predictions and generated
//! texts agree.

use std::fs;

use traind_tests::images::png;
use traind_tests::{Draft, History, Host, UNOPTIMIZED, data};

use crate::installed;

/// Losses and metrics differ by no more than this share.
const TOLERANCE: f64 = 1e-6;

/// A job of a kind, in a folder of its own on a host.
type Make = fn(&Host, &str) -> Draft;

/// The variables of processes that compute on CPU devices as the twin does: without kernels of traind's, which other
/// platforms lack too.
pub(crate) const CPU_VARIABLES: [(&str, &str); 2] = [("TRAIND_KERNELS", "off"), UNOPTIMIZED];

/// A host with CPU devices that compute as the twin does.
pub(crate) async fn cpu_host(cores: u32) -> Host {
    let variables = CPU_VARIABLES.map(|(name, value)| (name, value.to_owned()));
    Host::started_with_environment(cores, variables.to_vec()).await
}

/// The lines of a JSON Lines file.
fn lines(count: usize, line: impl Fn(&str, &str) -> String) -> String {
    let rows = data::rows(3, count, 7);
    rows.iter().map(|(text, label)| line(text, label) + "\n").collect()
}

fn texts(count: usize) -> String {
    lines(count, |text, _| format!("{{\"text\": \"{text}\"}}"))
}

fn few_steps(draft: Draft) -> Draft {
    draft.set("train.max_steps", 3).set("train.do_eval", true)
}

/// A row for each core.
fn one_row(draft: Draft) -> Draft {
    draft.set("train.per_device_train_batch_size", 1)
}

fn bert(host: &Host, name: &str) -> Draft {
    let dropout =
        "{num_hidden_layers: 1, hidden_dropout_prob: 0.1, attention_probs_dropout_prob: 0.1}";
    few_steps(Draft::new(host, name))
        .set("data.test", "validation.parquet")
        .set("train.do_predict", true)
        .set("model.config_overrides", dropout)
}

fn gpt2(host: &Host, name: &str) -> Draft {
    let data = "{train: train.jsonl, validation: train.jsonl, block_size: 16}";
    let draft = Draft::new(host, name).of_task("causal-lm", "gpt2-causal-lm", data);
    few_steps(draft.write("train.jsonl", texts(40)))
}

fn llama_lora(host: &Host, name: &str) -> Draft {
    let data = "{train: train.jsonl, validation: train.jsonl, block_size: 16}";
    let draft = Draft::new(host, name).of_task("causal-lm", "llama-causal-lm", data);
    few_steps(draft.write("train.jsonl", texts(40)))
        .set("peft.method", "lora")
        .set("peft.lora_dropout", 0.1)
        .set("peft.target_modules", "all-linear")
}

fn t5(host: &Host, name: &str) -> Draft {
    let data = "{train: train.jsonl, validation: train.jsonl, test: train.jsonl, \
                max_source_length: 12, max_target_length: 6}";
    let draft = Draft::new(host, name).of_task("seq2seq-lm", "t5-gated-seq2seq-lm", data);
    let pair = |text: &str, label: &str| {
        format!("{{\"source\": \"{text}\", \"target\": \"{}\"}}", label.to_lowercase())
    };
    let generation = r#"{"max_length": 4, "eos_token_id": 3, "decoder_start_token_id": 0}"#;
    few_steps(draft.write("train.jsonl", lines(24, pair)))
        .write("model/generation_config.json", generation)
        .set("train.do_predict", true)
        .set("train.predict_with_generate", true)
}

fn vit(host: &Host, name: &str) -> Draft {
    let data = "{train: train, validation: train}";
    let mut draft =
        Draft::new(host, name).of_task("image-classification", "vit-image-classification", data);
    for (class, color) in
        [("blue", [10, 20, 190]), ("green", [20, 180, 30]), ("red", [170, 30, 20])]
    {
        fs::create_dir_all(draft.path("train").join(class)).unwrap();
        for image in 0..6 {
            draft = draft.write(&format!("train/{class}/{image}.png"), png(14, color, image));
        }
    }
    few_steps(draft)
}

/// Returns all logged losses, then the final metrics by name, without those of time.
fn numbers(history: &History) -> Vec<f64> {
    let losses = history.steps().into_iter().map(|step| step.loss);
    let mut metrics: Vec<(&String, &f64)> = history.job.metrics.iter().collect();
    metrics.retain(|(name, _)| !name.ends_with("runtime") && !name.ends_with("per_second"));
    metrics.sort_by_key(|(name, _)| *name);
    losses.chain(metrics.into_iter().map(|(_, value)| *value)).collect()
}

pub(crate) fn assert_close(cpu: &[f64], twin: &[f64]) {
    assert!(!cpu.is_empty() && cpu.len() == twin.len(), "{cpu:?} {twin:?}");
    for (cpu, twin) in cpu.iter().zip(twin) {
        assert!((cpu - twin).abs() <= TOLERANCE * cpu.abs().max(1.0), "{cpu} {twin}");
    }
}

/// Runs a job on CPU devices or on the twin, and returns its draft with what it did.
async fn run(
    host: &Host,
    (name, make): (&str, Make),
    cores: u32,
    is_twin: bool,
) -> (Draft, History) {
    let platform = if is_twin { "neuron" } else { "cpu" };
    let draft = make(host, name).set("resources.cores", cores).set("resources.platform", platform);
    let history = host.complete(&draft).await;
    (draft, history)
}

/// Runs jobs on the twin with each of some options, and compares them with those of CPU devices.
async fn check(cores: u32, instance: &str, options: &[&str], jobs: &[(&str, Make)]) {
    let cpu = cpu_host(cores).await;
    let mut expected = Vec::new();
    for job in jobs {
        expected.push(run(&cpu, *job, cores, false).await);
    }
    for options in options {
        let twin = installed::host(cores, instance, options).await;
        for (job, (on_cpu, expected)) in jobs.iter().zip(&expected) {
            let (on_twin, history) = run(&twin, *job, cores, true).await;
            let (expected, found) = (numbers(expected), numbers(&history));
            println!("{} on CPU devices {expected:?}, on the twin {found:?}", job.0);
            assert_close(&expected, &found);
            installed::assert_compiled(&twin, &history);
            let [cpu, twin] = [on_cpu, &on_twin].map(|draft| draft.output("out"));
            assert_eq!(cpu.names(), twin.names(), "{} with {options}", job.0);
        }
    }
    let (options, jobs) = (options.len(), jobs.len());
    println!("{cores} cores of {instance}: {jobs} jobs with {options} sets of options");
}

/// An encoder that predicts, adapters of a decoder, and a model that writes texts. The others, and other options, are
/// in the ignored tests below.
#[tokio::test]
async fn a_family_of_each_kind_trains_as_on_cpu_devices() {
    let jobs: [(&str, Make); 3] = [("bert", bert), ("llama", llama_lora), ("t5", t5)];
    check(1, "trn2.48xlarge", &["chlo=true,analysis=true"], &jobs).await;
}

/// The first steps of the job of `traind demo`, with a row for each core. It keeps its learning rate: the one of the
/// small models, 50 times as high, moves pretrained weights so far that rounding changes the sixth digit of a loss.
fn quickstart(host: &Host, name: &str) -> Draft {
    let output = installed::demo(host).args(["--no-train", "--output", "demo"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let job_file = fs::read_to_string(host.path("demo/job.yaml")).unwrap();
    one_row(Draft::of_job_file(host, name, &job_file))
        .set("data.train", "../demo/train.csv")
        .set("data.validation", "../demo/validation.csv")
        .set("train.max_steps", 3)
        .set("train.logging_steps", 1)
        .set("train.eval_strategy", "no")
        .set("train.do_eval", false)
        .set("train.save_strategy", "no")
        .set("output_dir", "out")
}

/// A test for each number of cores: `scripts/soak/neuron` runs them.
macro_rules! core_counts {
    ($($test:ident: $cores:literal of $instance:literal,)*) => {
        $(
            #[tokio::test]
            #[ignore = "takes minutes"]
            async fn $test() {
                let [bert, t5]: [Make; 2] =
                    [|host, name| one_row(bert(host, name)), |host, name| one_row(t5(host, name))];
                let jobs: [(&str, Make); 5] =
                    [("bert", bert), ("gpt2", gpt2), ("llama", llama_lora), ("t5", t5), ("vit", vit)];
                check($cores, $instance, &[""], &jobs).await;
            }
        )*
    };
}

core_counts! {
    two_cores_of_trn1_train_as_on_cpu_devices: 2 of "trn1.32xlarge",
    eight_cores_of_trn1_train_as_on_cpu_devices: 8 of "trn1.32xlarge",
    thirty_two_cores_of_trn1_train_as_on_cpu_devices: 32 of "trn1.32xlarge",
    four_cores_of_trn2_train_as_on_cpu_devices: 4 of "trn2.48xlarge",
    sixteen_cores_of_trn2_train_as_on_cpu_devices: 16 of "trn2.48xlarge",
    four_cores_of_trn3_train_as_on_cpu_devices: 4 of "trn3",
    two_cores_of_inf2_train_as_on_cpu_devices: 2 of "inf2.xlarge",
}

/// A test of the quickstart's job for each number of cores: `scripts/soak/neuron` runs them.
macro_rules! quickstarts {
    ($($test:ident: $cores:literal of $instance:literal,)*) => {
        $(
            #[tokio::test]
            #[ignore = "takes minutes"]
            async fn $test() {
                if installed::has_quickstart() {
                    check($cores, $instance, &[""], &[("quickstart", quickstart)]).await;
                } else {
                    eprintln!("not tested: TRAIND_TEST_MODEL names no model");
                }
            }
        )*
    };
}

quickstarts! {
    the_quickstart_trains_on_one_core_of_trn1_as_on_a_cpu_device: 1 of "trn1.32xlarge",
    the_quickstart_trains_on_two_cores_of_trn1_as_on_cpu_devices: 2 of "trn1.32xlarge",
    the_quickstart_trains_on_eight_cores_of_trn1_as_on_cpu_devices: 8 of "trn1.32xlarge",
    the_quickstart_trains_on_thirty_two_cores_of_trn1_as_on_cpu_devices: 32 of "trn1.32xlarge",
    the_quickstart_trains_on_four_cores_of_trn2_as_on_cpu_devices: 4 of "trn2.48xlarge",
}

/// All options that let a job complete: `scripts/soak/neuron` runs them.
macro_rules! options {
    ($($test:ident: $options:expr,)*) => {
        $(
            #[tokio::test]
            #[ignore = "takes minutes"]
            async fn $test() {
                let jobs: [(&str, Make); 5] =
                    [("bert", bert), ("gpt2", gpt2), ("llama", llama_lora), ("t5", t5), ("vit", vit)];
                check(1, "trn1.2xlarge", $options, &jobs).await;
            }
        )*
    };
}

options! {
    all_families_train_with_each_option_that_changes_programs: &[
        "inexact=true",
        "donation=ignored",
        "donation=garbage",
        "donation=refused",
        "inexact=true,donation=garbage",
    ],
    all_families_train_with_each_option_of_plugin_and_compiler: &[
        "reversed=false",
        "chlo=true",
        "analysis=true",
        "any_count=true",
        "compiles_without_cores=true",
        "next_sdk=serves",
        "next_sdk=strict",
        "extensions=true",
        "work_folder=tmp",
        "kind=NC_v9",
        "errors=brief",
        "null_events=works",
        "null_events=leaks",
    ],
    all_families_train_with_each_option_of_time_and_host: &[
        "init_ms=500,compile_ms=50",
        "dispatch_us=200",
        "driver=2.29.0.0",
        "runtime=2.33.10",
    ],
}
