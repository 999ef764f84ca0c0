//! `traind embed`: writes the vectors of texts, without a daemon, by a job that trains nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};
use traind_job_file::commands::{VectorsAnswer, VectorsRequest};

use super::embedder::Embedder;
use super::exit::Exit;
use super::generate::answer_of;
use super::serve::runner_beside_this_program;
use super::submit::is_standard;

/// The job file in the folder of the results.
const JOB_FILE: &str = "embed.json";
const PREDICTIONS: &str = "predictions.parquet";
const TENSORS: &str = "vectors.safetensors";
const ROWS: &str = "rows.parquet";

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
    file: PathBuf,
    /// Folder for the vectors [default: the file's name with -vectors, in the current folder]
    #[arg(long, short, value_name = "FOLDER")]
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
    /// Write a file of safetensors, with a tensor for each column
    #[arg(long, conflicts_with = "rows")]
    safetensors: bool,
    /// Write FOLDER/rows.parquet for jobs that learn from this model: the texts, and the vectors of a row in its label
    #[arg(long)]
    rows: bool,
    /// Path of the runner's program [default: traind-runner next to this program]
    #[arg(long, value_name = "PATH")]
    runner: Option<PathBuf>,
}

impl Embed {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        ensure!(self.file.is_file(), "there is no file {}", self.file.display());
        let is_folder = !self.output.as_deref().is_some_and(is_standard);
        ensure!(
            is_folder,
            "vectors are files in a folder, and no text: name a folder with --output"
        );
        let folder = self.output.clone().map_or_else(|| default_folder(&self.file), Ok)?;
        let predictions = folder.join(PREDICTIONS);
        let results = match (self.safetensors, self.rows) {
            (true, _) => folder.join(TENSORS),
            (_, true) => folder.join(ROWS),
            _ => predictions.clone(),
        };
        ensure!(!results.exists(), "{} exists already: name another folder", results.display());
        std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        let path = folder.join(JOB_FILE);
        ensure!(!path.exists(), "{} exists already: name another folder", path.display());
        let job = format!("{:#}\n", self.job(&folder));
        std::fs::write(&path, job).with_context(|| format!("write {}", path.display()))?;
        let runner = self.runner.clone().map_or_else(runner_beside_this_program, Ok)?;
        let status = Command::new(&runner).arg(&path).status();
        let status = status.with_context(|| format!("run {}", runner.display()))?;
        if !status.success() {
            // The folder takes another try.
            std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
            return Ok(Exit::Failed);
        }
        if results != predictions {
            let texts = self.rows.then(|| self.file.display().to_string());
            let request = VectorsRequest { predictions, output: results.clone(), texts };
            let _: VectorsAnswer = answer_of(&mut Command::new(&runner), "vectors", &request)?;
            std::fs::remove_file(&request.predictions)
                .with_context(|| format!("remove {}", request.predictions.display()))?;
        }
        println!("{}", results.display());
        Ok(Exit::Done)
    }

    /// The job, whose relative paths start at the current folder.
    fn job(&self, folder: &Path) -> Value {
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
        job["output_dir"] = json!(folder);
        job
    }
}

fn default_folder(file: &Path) -> anyhow::Result<PathBuf> {
    let name = file.file_stem().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{} has no name: name a folder", file.display()))?;
    Ok(PathBuf::from(format!("{name}-vectors")))
}
