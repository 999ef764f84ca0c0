//! The vectors of texts, by a run of this program that embeds them.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

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
    let (mut job, output) = (job.clone(), folder.join("vectors"));
    job["data"]["test"] = json!(file);
    job["data"]["texts"] = json!([COLUMN]);
    if let Some(prompt) = job.as_object_mut().and_then(|job| job.remove("prompt")) {
        job["data"]["prompts"] = json!({ COLUMN: prompt });
    }
    job["output_dir"] = json!(output);
    let path = folder.join("job.json");
    std::fs::write(&path, format!("{job:#}"))
        .with_context(|| format!("write {}", path.display()))?;
    run(&path)?;
    let mut columns = vectors::read(&output.join("predictions.parquet"))?;
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

/// Runs a job by this program, whose events are reported on standard error.
fn run(job: &Path) -> anyhow::Result<()> {
    let runner = std::env::current_exe().context("find this program")?;
    let mut command = Command::new(runner);
    let output = command.arg(job).stdin(Stdio::null()).output().context("run a job")?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("the job failed: {}", last_lines(&String::from_utf8_lossy(&said)));
    }
    Ok(())
}

fn last_lines(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().rev().filter(|line| !line.is_empty()).take(3).collect();
    lines.reverse();
    lines.join("; ")
}
