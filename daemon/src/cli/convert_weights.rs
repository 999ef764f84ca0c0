//! `traind convert-weights`: makes a model folder of a GGUF file, without a daemon. The runner does it, since it knows
//! the models.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use traind_job_file::commands::{ConvertWeightsAnswer, ConvertWeightsRequest};

use super::endings;
use super::exit::Exit;
use super::runner_command::{Interrupts, answer_of};
use super::scratch::NewFolder;
use super::serve::runner_beside_this_program;

/// Bytes of a file of weights, as `save_pretrained` divides them.
const SHARD_BYTES_MAX: u64 = 50_000_000_000;

/// The content of what is written.
const FOLDERS: &str = "a model is a folder of files";

/// Convert a GGUF file to a model folder that jobs and transformers read
///
/// Quantized weights (Q4_0 to Q8_0, K-quants) become float32, with the bits that transformers loads from the file;
/// tokenizer and chat template come from the file too. Llama, Mistral, Qwen2, Qwen3 and GPT-2 are converted.
#[derive(clap::Args)]
pub(crate) struct ConvertWeights {
    /// The GGUF file
    file: PathBuf,
    /// New folder for the model [default: the file's name without .gguf, in the current folder]
    out: Option<PathBuf>,
    /// Path of the runner's program [default: traind-runner next to this program]
    #[arg(long, value_name = "PATH")]
    runner: Option<PathBuf>,
}

impl ConvertWeights {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        ensure!(self.file.is_file(), "there is no file {}", self.file.display());
        let out = self.out.clone().map_or_else(|| default_folder(&self.file), Ok)?;
        endings::refuse_others(&out, FOLDERS, &[])?;
        let max_shard_bytes = SHARD_BYTES_MAX;
        let request = ConvertWeightsRequest { file: self.file, out: out.clone(), max_shard_bytes };
        let runner = self.runner.map_or_else(runner_beside_this_program, Ok)?;
        let mut interrupts = Interrupts::watch()?;
        let new = NewFolder::create(&out)?;
        let answer = answer_of(Command::new(runner), "convert-weights", &request, &mut interrupts);
        let ConvertWeightsAnswer { model_type, parameters, tokens } = answer.await?;
        new.keep();
        let out = out.display();
        println!("{out}: a {model_type} of {parameters} parameters and {tokens} tokens");
        Ok(Exit::Done)
    }
}

fn default_folder(file: &Path) -> anyhow::Result<PathBuf> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.strip_suffix(".gguf").filter(|stem| !stem.is_empty());
    let stem = stem.with_context(|| format!("{name} does not end with .gguf: name the folder"))?;
    Ok(PathBuf::from(stem))
}
