//! `traind-runner mine`: finds hard negatives of queries among texts, as sentence-transformers' `mine_hard_negatives`
//! does.
//!
//! Reads a [`MineRequest`] as JSON from standard input, embeds queries and texts by runs of their own, searches on all
//! cores, writes a file of rows, and a [`MineAnswer`] to standard output.
//!
//! Imports `vectors`, `embed` and `decoding`.

mod output;
mod rows;
mod selection;
#[cfg(test)]
mod tests;
mod vectors;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use traind_job_file::commands::{MineAnswer, MineRequest};

use crate::own_output;
use rows::{Pairs, Written};
use selection::Selection;

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    own_output::answer_request(mine)
}

fn mine(request: &MineRequest) -> anyhow::Result<MineAnswer> {
    let pairs = Pairs::read(request)?;
    let selection = Selection::new(request, pairs.most_positives())?;
    let embed = |name: &str, texts: &[String], job: &Value| {
        vectors::embedded(&request.scratch.join(name), texts, job)
            .with_context(|| format!("embed the {name}"))
    };
    let queries = embed("queries", &pairs.queries, &request.query_job)?;
    let corpus = embed("texts", &pairs.corpus, &request.corpus_job)?;
    ensure!(queries.width == corpus.width, "queries and texts have vectors of different lengths");
    let mined = selection.of_all(&pairs, [&queries, &corpus], request.seed);
    let Written { rows, negatives } = rows::write(request, &pairs, &mined)?;
    let lacking = mined.iter().filter(|it| it.negatives.len() < request.num_negatives).count();
    let (queries, texts) = (pairs.queries.len(), pairs.corpus.len());
    Ok(MineAnswer { queries, texts, rows, negatives, lacking, left_out: pairs.left_out })
}
