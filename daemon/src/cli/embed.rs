//! `traind embed`: writes the vectors of texts, without a daemon, by a job that trains nothing.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};
use traind_job_file::commands::{EmbedAnswer, EmbedRequest, VectorsForm};

use super::Global;
use super::embedder::{Asked, Embedder, of_options};
use super::endings;
use super::exit::Exit;
use super::progress::Progress;
use super::runner_command::Interrupts;
use super::scratch::{NewFolder, Scratch};
use super::serve::runner_beside_this_program;
use super::submit::{is_standard, utf8_path};

/// Write the vectors of the texts in a file
///
/// The file is CSV, JSONL, Parquet, Arrow or .txt; each column of texts becomes a column of vectors, in the order of
/// the rows, in FOLDER/predictions.parquet, or with --safetensors a tensor in FOLDER/vectors.safetensors. Pooling,
/// prompts and length are those of the model folder unless options replace them. The host's cores share the rows.
#[derive(clap::Args)]
pub(crate) struct Embed {
    /// Model folder, or id of a model on the hub
    model: String,
    /// The file of texts
    #[arg(value_parser = utf8_path)]
    file: PathBuf,
    /// Folder for the vectors [default: the file's name with -vectors, in the current folder]
    #[arg(long, short, value_name = "FOLDER", value_parser = utf8_path)]
    output: Option<PathBuf>,
    /// Column of texts; may be repeated [default: all columns but label]
    #[arg(long, value_name = "COLUMN")]
    text: Vec<String>,
    /// Text before each text, such as "query: "; needs --text
    #[arg(long, value_name = "TEXT", requires = "text")]
    prompt: Option<String>,
    /// Tokens that texts are cut to
    #[arg(long, value_name = "TOKENS")]
    max_length: Option<u32>,
    /// How a text's tokens become its vector, such as mean, cls or lasttoken
    #[arg(long, value_name = "MODE")]
    pooling: Option<String>,
    /// Scale vectors to the length 1
    #[arg(long)]
    normalize: bool,
    #[command(flatten)]
    embedder: Embedder,
    /// Write a file of safetensors, with a tensor for each column; not with --rows
    #[arg(long, conflicts_with = "rows")]
    safetensors: bool,
    /// Write FOLDER/rows.parquet for jobs that learn from this model: the texts, and the vectors of a row in its label;
    /// not with --safetensors
    #[arg(long)]
    rows: bool,
    /// Path of the runner's program [default: traind-runner next to this program]
    #[arg(long, value_name = "PATH")]
    runner: Option<PathBuf>,
}

impl Embed {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        ensure!(self.file.is_file(), "there is no file {}", self.file.display());
        let is_folder = !self.output.as_deref().is_some_and(is_standard);
        ensure!(
            is_folder,
            "vectors are files in a folder, and no text: name a folder with --output"
        );
        let folder = self.output.clone().map_or_else(|| default_folder(&self.file), Ok)?;
        endings::refuse_others(&folder, "--output is a folder for files of vectors", &[])?;
        let (form, name) = self.form();
        let output = folder.join(name);
        ensure!(!output.exists(), "{} exists already: name another folder", output.display());
        let job = self.job();
        self.embedder.check(&job, &folder)?;
        self.embedder.check_plugin()?;
        let program = self.runner.clone().map_or_else(runner_beside_this_program, Ok)?;
        let mut interrupts = Interrupts::watch()?;
        let new = NewFolder::create(&folder)?;
        let scratch = Scratch::create(&folder, "embed")?;
        let request =
            EmbedRequest { job, scratch: scratch.path().to_owned(), output: output.clone(), form };
        let asked = Asked { global: &global, program: &program, scratch: &scratch };
        let answer = self.embedder.answer_of(asked, "embed", &request, &mut interrupts);
        let progress = Progress::of_runs(scratch.path(), &[("", "")]);
        let answer = progress.shown_during(answer).await;
        let EmbedAnswer { warnings } =
            answer.map_err(|error| scratch.about(error, &folder, of_options))?;
        warnings.iter().for_each(|warning| eprintln!("warning: {}", of_options(warning)));
        drop(scratch);
        new.keep();
        println!("{}", output.display());
        Ok(Exit::Done)
    }

    /// The kind of file that options ask for, and its name.
    fn form(&self) -> (VectorsForm, &'static str) {
        match (self.safetensors, self.rows) {
            (true, _) => (VectorsForm::Tensors, "vectors.safetensors"),
            (_, true) => (VectorsForm::Rows, "rows.parquet"),
            _ => (VectorsForm::Predictions, "predictions.parquet"),
        }
    }

    /// The job, whose relative paths start at the current folder.
    fn job(&self) -> Value {
        let mut data = json!({ "test": self.file });
        if !self.text.is_empty() {
            data["texts"] = self.text.clone().into();
        }
        if let Some(prompt) = &self.prompt {
            let of_column = |column: &String| (column.clone(), Value::from(prompt.as_str()));
            data["prompts"] = self.text.iter().map(of_column).collect::<Map<_, _>>().into();
        }
        if let Some(length) = self.max_length {
            data["max_length"] = length.into();
        }
        let mut embedding = Map::new();
        if let Some(mode) = &self.pooling {
            embedding.insert("pooling_mode".to_owned(), mode.as_str().into());
        }
        if self.normalize {
            embedding.insert("normalize".to_owned(), true.into());
        }
        let mut job = self.embedder.job("embed", &self.model, data);
        job["embedding"] = embedding.into();
        job
    }
}

fn default_folder(file: &Path) -> anyhow::Result<PathBuf> {
    let name = file.file_stem().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{} has no name: name a folder", file.display()))?;
    Ok(PathBuf::from(format!("{name}-vectors")))
}
