//! `traind mine`: finds hard negatives with a model of embeddings, without a daemon. The runner does it.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use traind_job_file::commands::{MineAnswer, MineLimits, MineRequest};
use traind_wording::{counted, counted_as};

use super::Global;
use super::embedder::{Asked, Embedder, of_options};
use super::endings;
use super::exit::Exit;
use super::finite::finite;
use super::progress::Progress;
use super::runner_command::Interrupts;
use super::scratch::Scratch;
use super::serve::runner_beside_this_program;
use super::submit::{is_standard, utf8_path};

/// The ends of files that rows are written to.
const ENDINGS: [&str; 4] = ["jsonl", "ndjson", "parquet", "pq"];

/// Find hard negatives for the queries in a file
///
/// The model embeds queries and texts on the host's cores; the texts nearest to a query that are not its positives
/// become its negatives. Options have the names and defaults of sentence-transformers' mine_hard_negatives. The rows
/// are written as JSON lines or as Parquet, which embedding and reranker jobs train on.
#[derive(clap::Args)]
pub(crate) struct Mine {
    /// Model folder, or id of a model on the hub
    model: String,
    /// The file of queries and their positives
    #[arg(value_parser = utf8_path)]
    file: PathBuf,
    /// File to write, whose name ends in .jsonl, .ndjson, .parquet or .pq; - is standard output, as JSON lines
    /// [default: the file's name with -negatives.jsonl, in the current folder]
    #[arg(long, short, value_name = "FILE", value_parser = utf8_path)]
    output: Option<PathBuf>,
    /// Column of queries [default: the first]
    #[arg(long, value_name = "COLUMN")]
    query: Option<String>,
    /// Column of positives [default: the second]
    #[arg(long, value_name = "COLUMN")]
    positive: Option<String>,
    /// File of more texts to choose from [default: the positives alone]
    #[arg(long, value_name = "FILE", value_parser = utf8_path)]
    corpus: Option<PathBuf>,
    /// Column of these texts [default: the first]
    #[arg(long, value_name = "COLUMN", requires = "corpus")]
    corpus_column: Option<String>,
    /// Negatives for each query
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    num_negatives: usize,
    /// Nearest candidates to leave out
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    range_min: usize,
    /// Nearest candidates to choose from [default: as many as needed, ten times as many with a margin or --max-score]
    #[arg(long, value_name = "COUNT")]
    range_max: Option<usize>,
    /// Highest cosine of a negative
    #[arg(long, value_name = "COSINE", allow_negative_numbers = true, value_parser = finite::<f32>)]
    max_score: Option<f32>,
    /// Lowest cosine of a negative
    #[arg(long, value_name = "COSINE", allow_negative_numbers = true, value_parser = finite::<f32>)]
    min_score: Option<f32>,
    /// Least difference of a negative's cosine from that of the positive
    #[arg(long, value_name = "COSINE", value_parser = finite::<f32>)]
    absolute_margin: Option<f32>,
    /// Least difference of a negative's cosine from that of the positive, as a share of the latter
    #[arg(long, value_name = "SHARE", value_parser = finite::<f32>)]
    relative_margin: Option<f32>,
    /// Which candidates become negatives: the nearest ones, or some at random
    #[arg(long, value_name = "STRATEGY", default_value = "top", value_parser = ["top", "random"])]
    sampling_strategy: String,
    /// Seed of random negatives
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
    /// Layout of rows: triplet, n-tuple, labeled-pair or labeled-list
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "triplet",
        value_parser = ["triplet", "n-tuple", "labeled-pair", "labeled-list"]
    )]
    output_format: String,
    /// Write the cosines too, in place of labels
    #[arg(long)]
    output_scores: bool,
    /// Text before each query, such as "query: "
    #[arg(long, value_name = "TEXT")]
    query_prompt: Option<String>,
    /// Text before each other text, such as "passage: "
    #[arg(long, value_name = "TEXT")]
    corpus_prompt: Option<String>,
    /// Tokens that texts are cut to
    #[arg(long, value_name = "TOKENS")]
    max_length: Option<u32>,
    #[command(flatten)]
    embedder: Embedder,
    /// Path of the runner's program [default: traind-runner next to this program]
    #[arg(long, value_name = "PATH")]
    runner: Option<PathBuf>,
}

impl Mine {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        if let Some(output) = self.output.as_deref().filter(|output| !is_standard(output)) {
            endings::require(output, "rows are written", &ENDINGS)?;
        }
        for file in [Some(&self.file), self.corpus.as_ref()].into_iter().flatten() {
            ensure!(file.is_file(), "there is no file {}", file.display());
        }
        let mut checked = self.job(None);
        checked["data"]["test"] = json!(self.file);
        self.embedder.check(&checked, Path::new("mine"))?;
        self.embedder.check_plugin()?;
        let program = self.runner.clone().map_or_else(runner_beside_this_program, Ok)?;
        let mut interrupts = Interrupts::watch()?;
        if self.output.as_deref().is_some_and(is_standard) {
            let scratch = Scratch::create(&std::env::temp_dir(), "mine")?;
            let file = scratch.path().join("negatives");
            let asked = Asked { global: &global, program: &program, scratch: &scratch };
            let answer = self.find(asked, &file, &mut interrupts).await?;
            let mut rows = File::open(&file).context("open the rows that were found")?;
            std::io::copy(&mut rows, &mut std::io::stdout()).context("write to standard output")?;
            lines_of(&answer, "-").iter().for_each(|line| eprintln!("{line}"));
            return Ok(Exit::Done);
        }
        let output = self.output.clone().map_or_else(|| default_output(&self.file), Ok)?;
        ensure!(!output.exists(), "{} exists already: name another file", output.display());
        let scratch = Scratch::create(output.parent().unwrap_or(Path::new("")), "mine")?;
        let asked = Asked { global: &global, program: &program, scratch: &scratch };
        let answer = self.find(asked, &output, &mut interrupts).await?;
        let written = output.display().to_string();
        lines_of(&answer, &written).iter().for_each(|line| println!("{line}"));
        Ok(Exit::Done)
    }

    async fn find(
        &self,
        asked: Asked<'_>,
        output: &Path,
        interrupts: &mut Interrupts,
    ) -> anyhow::Result<MineAnswer> {
        let scratch = asked.scratch;
        let request = self.request(output, scratch.path())?;
        let answer = self.embedder.answer_of(asked, "mine", &request, interrupts);
        let runs = [("texts", "texts: "), ("queries", "queries: ")];
        let answer = Progress::of_runs(scratch.path(), &runs).shown_during(answer).await;
        answer.map_err(|error| scratch.about(error, &self.file, of_options))
    }

    fn request(&self, output: &Path, scratch: &Path) -> anyhow::Result<MineRequest> {
        let limits = MineLimits {
            range_min: self.range_min,
            range_max: self.range_max,
            max_score: self.max_score,
            min_score: self.min_score,
            absolute_margin: self.absolute_margin,
            relative_margin: self.relative_margin,
        };
        Ok(MineRequest {
            file: path_text(&self.file)?,
            query: self.query.clone(),
            positive: self.positive.clone(),
            corpus: self.corpus.as_deref().map(path_text).transpose()?,
            corpus_column: self.corpus_column.clone(),
            limits,
            num_negatives: self.num_negatives,
            sampling_strategy: named(&self.sampling_strategy)?,
            seed: self.seed,
            format: named(&self.output_format)?,
            scores: self.output_scores,
            output: output.to_owned(),
            scratch: scratch.to_owned(),
            query_job: self.job(self.query_prompt.as_deref()),
            corpus_job: self.job(self.corpus_prompt.as_deref()),
        })
    }

    /// The job that embeds texts behind a prompt, without its texts and output.
    fn job(&self, prompt: Option<&str>) -> Value {
        let mut data = json!({});
        if let Some(length) = self.max_length {
            data["max_length"] = length.into();
        }
        let mut job = self.embedder.job("mine", &self.model, data);
        if let Some(prompt) = prompt {
            job["prompt"] = prompt.into();
        }
        job
    }
}

/// The path of a file of rows, which the loader reads as a pattern.
fn path_text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(text.to_owned())
}

/// The value of an option that is one of several names.
fn named<T: DeserializeOwned>(name: &str) -> anyhow::Result<T> {
    serde_json::from_value(name.into()).context("read an option")
}

/// The lines that say what was written to `output`.
fn lines_of(answer: &MineAnswer, output: &str) -> Vec<String> {
    let MineAnswer { queries, texts, rows, negatives, lacking, left_out } = answer;
    let mut lines = vec![format!(
        "{output}: {}, {} of {} among {}",
        counted(rows, "row"),
        counted(negatives, "negative"),
        counted(queries, "query"),
        counted(texts, "text")
    )];
    if *left_out > 0 {
        let left_out = counted_as(left_out, "row was", "rows were");
        lines.push(format!("{left_out} left out, for want of a text"));
    }
    if *negatives == 0 {
        lines.push(
            "no text is a negative of any query within the limits: loosen --min-score, --max-score, --range-min or the \
             margins, or give more texts by --corpus"
                .to_owned(),
        );
    } else if *lacking > 0 {
        let lacking = counted_as(lacking, "query has", "queries have");
        lines.push(format!("{lacking} fewer negatives than --num-negatives within the limits"));
    }
    lines
}

fn default_output(file: &Path) -> anyhow::Result<PathBuf> {
    let name = file.file_stem().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{} has no name: name an output", file.display()))?;
    Ok(PathBuf::from(format!("{name}-negatives.jsonl")))
}
