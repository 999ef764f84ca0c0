//! `traind-runner convert-weights`: answers `traind convert-weights` with a model folder made of a GGUF file.
//!
//! Imports `error`.

use std::io;
use std::path::Path;

use anyhow::{Context as _, ensure};
use traind_job_file::commands::{ConvertWeightsAnswer, ConvertWeightsRequest};
use traind_models::gguf;

#[cfg(test)]
mod tests;

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    let request: ConvertWeightsRequest =
        serde_json::from_reader(io::stdin().lock()).context("read the request")?;
    let gguf::Converted { model_type, parameters, tokens } = convert(&request)?;
    let (parameters, tokens) = (parameters as u64, tokens as u64);
    let answer = ConvertWeightsAnswer { model_type, parameters, tokens };
    serde_json::to_writer(io::stdout().lock(), &answer).context("write the answer")
}

/// Converts into a folder that is new or empty, which stays absent where it fails.
fn convert(request: &ConvertWeightsRequest) -> anyhow::Result<gguf::Converted> {
    let ConvertWeightsRequest { file, out, max_shard_bytes } = request;
    let is_new = !out.exists();
    std::fs::create_dir_all(out).with_context(|| format!("create {}", out.display()))?;
    ensure!(is_empty(out)?, "{} has files already: name a new folder", out.display());
    let converted = gguf::convert(file, out, *max_shard_bytes);
    if converted.is_err() && is_new {
        // Of no use, and its absence is what the error says.
        let _ = std::fs::remove_dir_all(out);
    }
    Ok(converted?)
}

fn is_empty(folder: &Path) -> anyhow::Result<bool> {
    let mut entries =
        std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    Ok(entries.next().is_none())
}
