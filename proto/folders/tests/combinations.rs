//! Every kind of folder, before every kind of job, spelled in every way: which jobs are refused, and why.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use traind_folders::{Claim, Intent, Problem, Record, conflict};
use traind_job_file::JobFile;

const ADAPTER: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];
const MODEL: [&str; 3] = ["config.json", "model.safetensors", "tokenizer.json"];

/// The contents of the output folder before the job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Nothing,
    Empty,
    OtherFiles,
    /// The model that the job trains.
    Base,
    /// The model that the job trains, as traind wrote it.
    TrainedBase,
    OtherModel,
    Adapter,
    /// Checkpoints of the Trainer.
    TrainersCheckpoints,
    /// The checkpoints of a run of traind that failed.
    Checkpoints,
    /// The checkpoints of a version of traind that kept no record.
    FormerCheckpoints,
    /// The output of another job.
    Output,
}

const BEFORE: [Before; 11] = [
    Before::Nothing,
    Before::Empty,
    Before::OtherFiles,
    Before::Base,
    Before::TrainedBase,
    Before::OtherModel,
    Before::Adapter,
    Before::TrainersCheckpoints,
    Before::Checkpoints,
    Before::FormerCheckpoints,
    Before::Output,
];

/// The output of the job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Job {
    Full,
    Lora,
    Merged,
    Best,
    Evaluation,
}

const JOBS: [Job; 5] = [Job::Full, Job::Lora, Job::Merged, Job::Best, Job::Evaluation];

/// The output folder as the job file spells it, in the scratch folder.
const SPELLINGS: [&str; 6] = ["out", "out/", "./out", "missing/../out", "link", "here/out/."];

fn write(folder: &Path, names: &[&str]) {
    fs::create_dir_all(folder).unwrap();
    for name in names {
        fs::write(folder.join(name), format!("the user's {name}")).unwrap();
    }
}

fn checkpoint(folder: &Path, step: u64, job: Option<&str>) {
    let path = folder.join(format!("checkpoint-{step}"));
    write(&path, &MODEL);
    if let Some(job) = job {
        let manifest = serde_json::json!({"job_id": job, "files": [], "step": step});
        fs::write(path.join("manifest.json"), manifest.to_string()).unwrap();
    }
}

/// Records files and checkpoints as those of the job `earlier`, then writes them.
fn trained(folder: &Path, names: &[&str], step: Option<u64>) {
    fs::create_dir_all(folder).unwrap();
    Record::begin(folder, Claim { job: "earlier", name: "earlier" }).unwrap();
    Record::add_files(folder, names.iter().map(|name| (*name).to_owned())).unwrap();
    write(folder, names);
    if let Some(step) = step {
        Record::add_checkpoint(folder, step).unwrap();
        checkpoint(folder, step, Some("earlier"));
    }
}

/// Makes the scratch folder.
fn scratch(before: Before) -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    match before {
        Before::Nothing => {}
        Before::Empty => fs::create_dir(&out).unwrap(),
        Before::OtherFiles => write(&out, &["notes.txt", "README.md", "train.csv"]),
        Before::Base | Before::OtherModel => write(&out, &MODEL),
        Before::TrainedBase => trained(&out, &MODEL, None),
        Before::Adapter => write(&out, &ADAPTER),
        Before::TrainersCheckpoints => checkpoint(&out, 10, None),
        Before::Checkpoints => trained(&out, &[], Some(10)),
        Before::FormerCheckpoints => checkpoint(&out, 10, Some("former")),
        Before::Output => trained(&out, &MODEL, Some(10)),
    }
    write(&scratch.path().join("base"), &MODEL);
    fs::write(scratch.path().join("train.csv"), "text,label\n").unwrap();
    symlink("out", scratch.path().join("link")).unwrap();
    symlink(".", scratch.path().join("here")).unwrap();
    scratch
}

fn intent(scratch: &Path, before: Before, job: Job, spelling: &str, train: &str) -> Intent {
    let is_base = matches!(before, Before::Base | Before::TrainedBase);
    let model = if is_base { "./out" } else { "./base" };
    let peft = match job {
        Job::Lora => "peft: {method: lora}",
        Job::Merged => "peft: {method: lora, merge: true}",
        _ => "",
    };
    let train = match job {
        Job::Best => format!(
            "eval_strategy: steps, save_strategy: steps, load_best_model_at_end: true{train}"
        ),
        Job::Evaluation => format!("do_train: false, do_predict: true{train}"),
        _ => format!("save_strategy: steps{train}"),
    };
    let yaml = format!(
        "name: a\nmodel: {{name_or_path: {model}, task: sequence-classification, num_labels: 2}}\n\
         data: {{train: train.csv, validation: train.csv, test: train.csv}}\n\
         train: {{{train}}}\n{peft}\noutput_dir: {spelling}"
    );
    Intent::of(&JobFile::parse(&yaml, scratch).unwrap().job)
}

/// The problem that a job is expected to have, in one word.
fn expected(before: Before, job: Job) -> &'static str {
    match (before, job) {
        (_, Job::Evaluation) => "none",
        (Before::Nothing | Before::Empty | Before::OtherFiles, _) => "none",
        (Before::Base | Before::TrainedBase, Job::Lora) => "none",
        (Before::Base | Before::TrainedBase, _) => "input",
        (Before::OtherModel | Before::Adapter, _) => "files",
        _ => "checkpoints",
    }
}

/// The problem that a job with `overwrite_output_dir` is expected to have, in one word.
fn expected_of_overwriting(before: Before, job: Job) -> &'static str {
    match (before, job) {
        (Before::Adapter, Job::Full | Job::Merged | Job::Best) => "adapter",
        (Before::Base | Before::TrainedBase, _) => expected(before, job),
        _ => "none",
    }
}

fn word(problem: Option<&Problem>) -> &'static str {
    match problem {
        None => "none",
        Some(Problem::Checkpoints { .. }) => "checkpoints",
        Some(Problem::Files { .. }) => "files",
        Some(Problem::Input { .. }) => "input",
        Some(Problem::Adapter) => "adapter",
        Some(Problem::InCheckpoint { .. }) => "in checkpoint",
    }
}

fn check(train: &str, expected: fn(Before, Job) -> &'static str) {
    for (place, before) in BEFORE.into_iter().enumerate() {
        let is_spelled = matches!(before, Before::Base | Before::Output);
        for job in JOBS {
            let spellings = if is_spelled { &SPELLINGS } else { &SPELLINGS[place % 4..=place % 4] };
            for spelling in spellings.iter().copied() {
                let scratch = scratch(before);
                let intent = intent(scratch.path(), before, job, spelling, train);
                let found = conflict(&intent, None).unwrap();
                let found = word(found.as_ref().map(|it| &it.problem));
                let about = format!("{before:?}, then {job:?} into {spelling}, {train}");
                assert_eq!(found, expected(before, job), "{about}");
            }
        }
    }
}

#[test]
fn no_job_replaces_files_of_others() {
    check("", expected);
}

#[test]
fn overwriting_jobs_replace_all_but_their_inputs_and_foreign_adapters() {
    check(", overwrite_output_dir: true", expected_of_overwriting);
}

#[test]
fn a_job_that_continues_a_run_may_replace_its_output() {
    for resume in ["true", "auto", "out/checkpoint-10", "link", "here/out"] {
        let check = |before, expect: &str| {
            let scratch = scratch(before);
            let train = format!(", resume_from_checkpoint: {resume}");
            let intent = intent(scratch.path(), before, Job::Full, "out", &train);
            let found = conflict(&intent, None).unwrap();
            assert_eq!(word(found.as_ref().map(|it| &it.problem)), expect, "{before:?}, {resume}");
        };
        check(Before::Output, "none");
        check(Before::Checkpoints, "none");
        check(Before::FormerCheckpoints, "none");
        check(Before::OtherModel, "files");
    }
}

#[test]
fn a_later_attempt_of_a_job_knows_its_files() {
    let check = |before, own, expect: &str| {
        let scratch = scratch(before);
        let intent = intent(scratch.path(), before, Job::Full, "out", "");
        let found = conflict(&intent, Some(own)).unwrap();
        assert_eq!(word(found.as_ref().map(|it| &it.problem)), expect, "{before:?}, {own}");
    };
    check(Before::Output, "earlier", "none");
    check(Before::Checkpoints, "earlier", "none");
    check(Before::FormerCheckpoints, "former", "none");
    for before in [Before::Output, Before::Checkpoints, Before::FormerCheckpoints] {
        check(before, "another", "checkpoints");
    }
    check(Before::OtherModel, "earlier", "files");
}

#[test]
fn folders_around_and_in_those_that_are_read_are_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    trained(&path("run"), &MODEL, Some(10));
    write(&path("models/base"), &MODEL);
    write(&path("data"), &["predictions.parquet"]);
    let check = |yaml: &str, expect: &str| {
        let yaml = format!("name: a\n{yaml}");
        let intent = Intent::of(&JobFile::parse(&yaml, scratch.path()).unwrap().job);
        let found = conflict(&intent, None).unwrap();
        assert_eq!(word(found.as_ref().map(|it| &it.problem)), expect, "{yaml}\n{found:?}");
    };
    let job = |model: &str, data: &str, train: &str, folders: &str| {
        format!(
            "model: {{name_or_path: {model}, task: causal-lm}}\ndata: {{train: {data}}}\n\
             train: {{save_strategy: steps{train}}}\n{folders}"
        )
    };
    let overwrite = ", overwrite_output_dir: true";
    let base = "./models/base";
    check(&job(base, "data", "", "output_dir: models"), "none");
    check(&job(base, "data", "", "output_dir: models/base/out"), "none");
    check(&job(base, "data", "", "output_dir: out\ncheckpoint_dir: models/base"), "none");
    // Adapters that the job starts from.
    write(&path("adapter"), &ADAPTER);
    let peft = "peft: {method: lora, adapter_name_or_path: adapter}\noutput_dir: ";
    check(&job(base, "data", overwrite, &format!("{peft}adapter")), "input");
    check(&job(base, "data", overwrite, &format!("{peft}out")), "none");
    // A checkpoint as the model, of the folder that is written.
    check(&job("./run/checkpoint-10", "data", overwrite, "output_dir: run"), "input");
    check(
        &job("./run/checkpoint-10", "data", overwrite, "output_dir: o\ncheckpoint_dir: x/../run"),
        "input",
    );
    check(&job("./run/checkpoint-10", "data", "", "output_dir: out"), "none");
    // In a checkpoint, which is removed as a whole.
    check(&job(base, "data", overwrite, "output_dir: run/checkpoint-10/out"), "in checkpoint");
    check(
        &job(base, "data", "", "output_dir: o\ncheckpoint_dir: run/checkpoint-10"),
        "in checkpoint",
    );
    // Checkpoints of another job, in a folder of their own.
    check(&job(base, "data", "", "output_dir: out\ncheckpoint_dir: run"), "checkpoints");
    check(&job(base, "data", overwrite, "output_dir: out\ncheckpoint_dir: run"), "none");
    // A file of data that a run might write.
    check(&job(base, "data/predictions.parquet", overwrite, "output_dir: ./x/../data"), "input");
    check(&job(base, "'data/*.parquet'", "", "output_dir: data"), "files");
}

#[test]
fn messages_name_the_files_and_the_way_out() {
    let message = |before, job| {
        let scratch = scratch(before);
        let intent = intent(scratch.path(), before, job, "out", "");
        let found = conflict(&intent, None).unwrap().unwrap();
        let shown = format!("output_dir {}", PathBuf::from(scratch.path()).join("out").display());
        found.to_string().replace(&shown, "OUT")
    };
    assert_eq!(
        message(Before::Base, Job::Full),
        "OUT has config.json, which the job reads as model.name_or_path and would replace; name \
         another folder"
    );
    assert_eq!(
        message(Before::Output, Job::Full),
        "OUT has checkpoint-10 of job earlier; continue from the newest with \
         train.resume_from_checkpoint: true, name another folder, or set \
         train.overwrite_output_dir: true to replace them"
    );
    assert_eq!(
        message(Before::OtherModel, Job::Full),
        "OUT has config.json, model.safetensors, tokenizer.json, which this job did not write; \
         name another folder, or set train.overwrite_output_dir: true to replace such files"
    );
}
