//! The trainings of `docs/coming-from.md`: job file, estimator and `traind convert` give the same job.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use traind_job_file::JobFile;
use traind_proto::v1::{Plan, PlanJobRequest};
use traind_tests::Host;

use super::Walk;
use super::python::run;
use crate::clients::python_client::{in_tests, python};

pub(super) const PAGE: &str = "docs/coming-from.md";
const TRAININGS: usize = 6;

/// A job with its defaults, apart from its name and its output folder.
fn canonical(shown_by: &str, job_file: &str) -> Value {
    let parsed = JobFile::parse(job_file, Path::new("/base"))
        .unwrap_or_else(|violations| panic!("{shown_by}: {violations:?}\n{job_file}"));
    let mut job = serde_json::to_value(&parsed.job).unwrap();
    for key in ["name", "output_dir"] {
        job.as_object_mut().unwrap().remove(key);
    }
    job
}

/// Fails with the sections' keys that differ.
fn check_same(shown_by: &str, found: &Value, written: &Value) {
    let Some(sections) = written.as_object() else { panic!("{written}") };
    for (name, section) in sections {
        for (key, value) in section.as_object().into_iter().flatten() {
            assert_eq!(found[name][key], *value, "{shown_by}: {name}.{key}");
        }
    }
    assert_eq!(found, written, "{shown_by}");
}

/// The jobs of the page's job files; parts of job files have no name.
fn written(walk: &Walk) -> Vec<Value> {
    let whole = walk.blocks("yaml").filter(|block| block.starts_with("name:"));
    whole.map(|block| canonical("the job file", block)).collect()
}

#[test]
fn trainings_of_notebooks_are_converted_to_the_job_files_of_the_page() {
    let walk = Walk::new(Host::prepared(1), PAGE, &[]);
    let written = written(&walk);
    let commands = walk.commands();
    assert_eq!((written.len(), commands.len()), (TRAININGS, TRAININGS), "{commands:?}");
    let mut arguments = walk.blocks("json");
    for (command, written) in commands.iter().zip(&written) {
        if let Some(file) = command.split_whitespace().find(|word| word.ends_with(".json")) {
            walk.write(file, arguments.next().unwrap());
        }
        walk.run(command);
        check_same(command, &canonical(command, &walk.read("job.yaml")), written);
        std::fs::remove_file(walk.folder().join("job.yaml")).unwrap();
    }
    assert_eq!(arguments.next(), None);
}

#[test]
fn estimators_of_notebooks_submit_the_job_files_of_the_page() {
    let Some(python) = python() else { return };
    let walk = Walk::new(Host::prepared(1), PAGE, &[]);
    let package = walk.folder().join("package");
    run(Command::new(&python).arg(in_tests("../proto/python/generate.py")).arg(&package));
    let blocks: Vec<&str> = walk.blocks("python").collect();
    let mut recorded = Command::new(&python);
    recorded.arg(in_tests("end_to_end/documents/walkthrough/recorded_jobs.py"));
    recorded.arg(json!(blocks).to_string()).env("PYTHONPATH", &package).current_dir(walk.folder());
    let submitted: Vec<Value> = serde_json::from_str(&run(&mut recorded)).unwrap();
    let written = written(&walk);
    assert_eq!((submitted.len(), written.len()), (TRAININGS, TRAININGS));
    for (submitted, written) in submitted.iter().zip(&written) {
        let name = format!("the estimator of {}", submitted["model"]);
        check_same(&name, &canonical(&name, &submitted.to_string()), written);
    }
}

/// A small GPT-2 on eight cores.
const GPT2: &str = "
name: gpt2
model:
  name_or_path: ./gpt2
  task: causal-lm
  from_config: true
  config_overrides: {n_embd: 64, n_layer: 4, n_head: 4, n_positions: 128}
data: {train: text.txt, block_size: 128}
train: {max_steps: 5, per_device_train_batch_size: 4}
resources: {cores: 8}
output_dir: out
";

/// Settings of parameters, with the part of a core's memory that they make smaller.
type Effect = (&'static [(&'static str, &'static str)], fn(&Plan) -> u64);

const EFFECTS: [Effect; 4] = [
    (&[("parallel.tensor", "2")], |plan| plan.weights_bytes),
    (&[("parallel.pipeline", "2"), ("parallel.microbatches", "4")], |plan| plan.weights_bytes),
    (&[("parallel.shard_optimizer_state", "true")], |plan| plan.optimizer_bytes),
    (&[("train.gradient_checkpointing", "true")], |plan| plan.activations_bytes),
];

#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_the_extended_features_show_in_the_plan() {
    let walk = Walk::new(Host::started(8).await, PAGE, &[]);
    walk.write_model("gpt2", "gpt2-causal-lm");
    walk.write("text.txt", "cat dog\n".repeat(4000));
    let plan = async |settings: &[(&str, &str)]| {
        let setting = |(field, value): &(&str, &str)| ((*field).to_owned(), (*value).to_owned());
        let request = PlanJobRequest {
            job_file: GPT2.to_owned(),
            base_dir: walk.folder().display().to_string(),
            overrides: settings.iter().map(setting).collect(),
            search: None,
        };
        walk.host.jobs().await.plan_job(request).await.unwrap().into_inner()
    };
    let without = plan(&[]).await;
    for (settings, bytes) in EFFECTS {
        let with = plan(settings).await;
        assert!(bytes(&with) < bytes(&without), "{settings:?}: {with:?}, without: {without:?}");
    }
}
