//! `traind-runner mine`: finds hard negatives of queries among texts, as sentence-transformers' `mine_hard_negatives`
//! does.
//!
//! Reads a [`Request`] as JSON from standard input, embeds queries and texts by runs of their own, searches on all
//! cores, writes a file of rows, and a [`Reply`] to standard output.
//!
//! Imports `vectors` and `decoding`.

mod rows;
mod search;
mod selection;
#[cfg(test)]
mod tests;
mod vectors;

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use rows::{Form, Pairs, Written};
use selection::{Limits, Sampling, Selection};

#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    /// The file of queries and positives.
    file: String,
    /// The columns of both; the first two where absent.
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    positive: Option<String>,
    /// A file of texts besides the positives, and its column.
    #[serde(default)]
    corpus: Option<String>,
    #[serde(default)]
    corpus_column: Option<String>,
    #[serde(flatten)]
    limits: Limits,
    num_negatives: usize,
    sampling_strategy: Sampling,
    seed: u64,
    format: Form,
    /// Whether rows have the scores of their texts.
    #[serde(default)]
    scores: bool,
    /// The file to write.
    output: PathBuf,
    /// Jobs that embed queries and texts, without their data and output.
    query_job: Value,
    corpus_job: Value,
}

/// The outcome of a search.
#[derive(Debug, Serialize)]
struct Reply {
    queries: usize,
    texts: usize,
    rows: usize,
    negatives: usize,
    /// Queries with fewer negatives than were wanted.
    lacking: usize,
}

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    let mut out = crate::own_output::own_output().context("open the standard output")?;
    let request: Request =
        serde_json::from_reader(io::stdin().lock()).context("read the request")?;
    let reply = mine(&request)?;
    serde_json::to_writer(&mut out, &reply).context("write the answer")
}

fn mine(request: &Request) -> anyhow::Result<Reply> {
    let pairs = Pairs::read(request)?;
    let selection = Selection::new(request, pairs.most_positives())?;
    let folder = tempfile::Builder::new().prefix(".traind-mine-").tempdir_in(parent(request))?;
    let embed = |name: &str, texts: &[String], job: &Value| {
        vectors::embedded(&folder.path().join(name), texts, job)
            .with_context(|| format!("embed the {name}"))
    };
    let queries = embed("queries", &pairs.queries, &request.query_job)?;
    let corpus = embed("texts", &pairs.corpus, &request.corpus_job)?;
    ensure!(queries.width == corpus.width, "queries and texts have vectors of different lengths");
    let mined = selection.of_all(&pairs, [&queries, &corpus], request.seed);
    let Written { rows, negatives } = rows::write(request, &pairs, &mined)?;
    let lacking = mined.iter().filter(|it| it.negatives.len() < request.num_negatives).count();
    let (queries, texts) = (pairs.queries.len(), pairs.corpus.len());
    Ok(Reply { queries, texts, rows, negatives, lacking })
}

/// The folder of the output, where temporary files are too.
fn parent(request: &Request) -> &Path {
    let parent = request.output.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}
