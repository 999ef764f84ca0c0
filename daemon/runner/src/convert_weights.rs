//! `traind-runner convert-weights`: answers `traind convert-weights` with a model folder made of a GGUF file.
//!
//! Imports `error`.

use std::path::Path;

use anyhow::{Context as _, ensure};
use traind_job_file::commands::{ConvertWeightsAnswer, ConvertWeightsRequest};
use traind_models::gguf;

use crate::own_output::answer_request;

#[cfg(test)]
mod tests;

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    answer_request(|request| {
        let gguf::Converted { model_type, parameters, tokens } = convert(request)?;
        let (parameters, tokens) = (parameters as u64, tokens as u64);
        Ok(ConvertWeightsAnswer { model_type, parameters, tokens })
    })
}

/// Converts into a folder that is new or empty, which stays absent where it fails.
fn convert(request: &ConvertWeightsRequest) -> anyhow::Result<gguf::Converted> {
    let ConvertWeightsRequest { file, out, max_shard_bytes } = request;
    let is_new = !out.exists();
    std::fs::create_dir_all(out).with_context(|| format!("create {}", out.display()))?;
    ensure!(is_empty(out)?, "{} has files already: name a new folder", out.display());
    let converted = gguf::convert(file, out, *max_shard_bytes);
    if converted.is_err() && is_new {
        // An incomplete folder is of no use.
        let _ = std::fs::remove_dir_all(out);
    }
    Ok(converted?)
}

fn is_empty(folder: &Path) -> anyhow::Result<bool> {
    let mut entries =
        std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    Ok(entries.next().is_none())
}
