//! The vectors of texts, by a run of this program that embeds them.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::embed;
use crate::vectors::{self, Vectors};

/// The column of texts, and that of their vectors.
const COLUMN: &str = "text";

/// Scales vectors to the length 1.
pub(super) fn normalized(mut vectors: Vectors) -> Vectors {
    for vector in vectors.values.chunks_mut(vectors.width.max(1)) {
        let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        let factor = 1.0 / length.max(1e-12);
        vector.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
    }
    vectors
}

/// Embeds texts by `job`, whose files are in the new folder `folder`.
pub(super) fn embedded(folder: &Path, texts: &[String], job: &Value) -> anyhow::Result<Vectors> {
    std::fs::create_dir(folder).with_context(|| format!("create {}", folder.display()))?;
    let file = folder.join("texts.jsonl");
    write_texts(&file, texts).with_context(|| format!("write {}", file.display()))?;
    let mut job = job.clone();
    job["data"]["test"] = json!(file);
    job["data"]["texts"] = json!([COLUMN]);
    if let Some(prompt) = job.as_object_mut().and_then(|job| job.remove("prompt")) {
        job["data"]["prompts"] = json!({ COLUMN: prompt });
    }
    let mut columns = vectors::read(&embed::embedded(folder, &job)?.predictions)?;
    let vectors = normalized(columns.pop().map(|(_, vectors)| vectors).unwrap_or_default());
    ensure!(vectors.len() == texts.len(), "{} vectors for {} texts", vectors.len(), texts.len());
    Ok(vectors)
}

fn write_texts(file: &Path, texts: &[String]) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    for text in texts {
        writeln!(out, "{}", json!({ COLUMN: text }))?;
    }
    out.flush()
}
