//! `run.json` carries a job unchanged from the daemon to the runner.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;
use traind_fuzz::contains;
use traind_job_file::{JobFile, RUN_SPEC_FILE, RunSpec, RunSpecError};

const YAML: &str = "
name: demo
model:
  name_or_path: ./bert
  task: sequence-classification
  config_overrides: {hidden_dropout_prob: 0.0, layers: [1, two, null, true, -3]}
data: {train: ['*.csv', b.csv], label_map: {9: z, 10: a, '': b}}
train: {learning_rate: 1.45e-4, warmup_steps: 0.06, eval_steps: 0.25}
output_dir: out
";

fn spec(job: JobFile) -> RunSpec {
    RunSpec {
        job_id: "01J".to_owned(),
        attempt: 1,
        job,
        cores: vec![0, 1],
        plugin: "/plugins/plugin.so".into(),
        cache_dir: "/cache".into(),
        cache_bytes_max: Some(1 << 30),
        device_kind: "a CPU".to_owned(),
    }
}

fn job() -> JobFile {
    JobFile::parse(YAML, Path::new("/base")).unwrap().job
}

#[test]
fn written_and_read_again() {
    let dir = TempDir::new().unwrap();
    let mut spec = spec(job());
    spec.write(dir.path()).unwrap();
    assert_eq!(RunSpec::read(dir.path()).unwrap(), spec);
    spec.attempt = 2;
    spec.write(dir.path()).unwrap();
    assert_eq!(RunSpec::read(dir.path()).unwrap(), spec);
    let files: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, [RUN_SPEC_FILE]);
}

#[test]
fn damage_is_an_error_that_names_the_file() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join(RUN_SPEC_FILE);
    assert!(matches!(RunSpec::read(dir.path()), Err(RunSpecError::Io { .. })));
    spec(job()).write(dir.path()).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    let error = RunSpec::read(dir.path()).unwrap_err();
    assert!(error.to_string().ends_with(RUN_SPEC_FILE), "{error}");
    fs::write(&path, text.replace("\"learning_rate\": 0.000145", "\"learning_rate\": -1")).unwrap();
    let RunSpecError::Json { source, .. } = RunSpec::read(dir.path()).unwrap_err() else {
        panic!("an illegal value was read")
    };
    let source = source.to_string();
    assert!(source.contains("train.learning_rate: must be at least 0, not -1"), "{source}");
}

#[test]
fn a_resolved_job_is_a_job_file() {
    let job = job();
    let json = serde_json::to_string(&job).unwrap();
    let again = JobFile::parse(&json, Path::new("/elsewhere")).unwrap();
    assert_eq!(again.job, job);
    assert!(again.warnings.is_empty());
}

#[test]
fn a_field_that_an_older_version_did_not_know_has_its_default() {
    let mut json = serde_json::to_value(job()).unwrap();
    json["train"].as_object_mut().unwrap().shift_remove("max_grad_norm");
    let read: JobFile = serde_json::from_value(json).unwrap();
    assert_eq!(read, job());
}

/// The runs of the documentation's examples. Each line has `run.json` as the daemon of a version passed it to its
/// runner, and the first one also the job with all values that it had there, defaults included.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/run_specs")
}

fn runs_of_the_examples() -> Vec<RunSpec> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let job = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        JobFile::parse(&text, Path::new("/base")).unwrap().job
    };
    files.iter().map(|path| spec(job(path))).collect()
}

/// A runner reads what a daemon of another version wrote, and each value means what it meant, defaults included.
#[test]
fn runs_of_all_kept_versions_are_read_with_all_their_values() {
    let current = fixtures().join(format!("{}.jsonl", env!("CARGO_PKG_VERSION")));
    if std::env::var_os("TRAIND_WRITE_FIXTURES").is_some() {
        fs::create_dir_all(fixtures()).unwrap();
        let line = |(number, spec): (usize, RunSpec)| match number {
            0 => format!("{}\n", json!({"run": spec, "job": spec.job})),
            _ => format!("{}\n", json!({"run": spec})),
        };
        let lines = runs_of_the_examples().into_iter().enumerate().map(line);
        fs::write(&current, lines.collect::<String>()).unwrap();
    }
    assert!(current.exists(), "{} is missing: set TRAIND_WRITE_FIXTURES=1", current.display());
    let dir = TempDir::new().unwrap();
    for entry in fs::read_dir(fixtures()).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.lines().count() > 10, "{}", path.display());
        for line in text.lines() {
            let kept: Value = serde_json::from_str(line).unwrap();
            fs::write(dir.path().join(RUN_SPEC_FILE), kept["run"].to_string()).unwrap();
            let spec = RunSpec::read(dir.path()).unwrap();
            let (run, job) = (json!(spec), json!(spec.job));
            let name = &kept["run"]["job"]["name"];
            assert!(contains(&run, &kept["run"]), "{}, {name}: {run}", path.display());
            let all = kept.get("job");
            let has_all = all.is_none_or(|kept| contains(&job, kept));
            assert!(has_all, "{}, {name}: {job}", path.display());
        }
    }
}

/// A version that does not know a key reads the runs that leave it at its default.
#[test]
fn a_run_has_the_keys_alone_that_are_not_at_their_defaults() {
    let dir = TempDir::new().unwrap();
    for spec in runs_of_the_examples() {
        spec.write(dir.path()).unwrap();
        assert_eq!(RunSpec::read(dir.path()).unwrap(), spec);
    }
    let job = job().without_defaults().unwrap();
    let train = json!({"learning_rate": 1.45e-4, "warmup_steps": 0.06, "eval_steps": 0.25});
    assert_eq!(job["train"], train);
    assert_eq!(job.get("resources"), None);
    let mut later = json!(spec(self::job()));
    later["job"]["of_a_later_version"] = 3.into();
    fs::write(dir.path().join(RUN_SPEC_FILE), later.to_string()).unwrap();
    let RunSpecError::Json { source, .. } = RunSpec::read(dir.path()).unwrap_err() else {
        panic!("a key that is not known has no effect")
    };
    assert!(source.to_string().contains("of_a_later_version: is not a known key"), "{source}");
}

proptest! {
    /// Whatever numbers a job has, the runner gets the same ones.
    #[test]
    fn numbers_survive(rate in 0.0..10.0f64, epochs in 0.001..100.0f64, seed in any::<u32>(), steps in 1..u32::MAX) {
        let yaml = YAML.replace("learning_rate: 1.45e-4", &format!(
            "learning_rate: {rate:e}, num_train_epochs: {epochs:?}, seed: {seed}, max_steps: {steps}"
        ));
        let job = JobFile::parse(&yaml, Path::new("/base")).unwrap().job;
        prop_assert_eq!(job.train.learning_rate, rate);
        prop_assert_eq!(job.train.num_train_epochs, epochs);
        let read: JobFile = serde_json::from_str(&serde_json::to_string(&job).unwrap()).unwrap();
        prop_assert_eq!(read, job);
    }

    /// No text makes the parser panic.
    #[test]
    fn any_text(yaml in "[ -~\n]{0,200}", cut in any::<prop::sample::Index>()) {
        let _ = JobFile::parse(&yaml, Path::new("/base"));
        let spliced = format!("{}{yaml}", &YAML[..cut.index(YAML.len())]);
        let _ = JobFile::parse(&spliced, Path::new("/base"));
    }
}
