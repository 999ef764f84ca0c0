//! `traind-runner embed`: writes the vectors of the texts in a file, by a run of this program that trains nothing.
//!
//! Reads an [`EmbedRequest`] as JSON from standard input and writes an [`EmbedAnswer`] to standard output.
//!
//! Imports `vectors`.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use traind_job_file::commands::{
    EmbedAnswer, EmbedRequest, PARENT_VARIABLE, VectorsForm, last_error,
};
use traind_loader::{Embedding, Files, Location, Source, TaskSpec, Value as Cell};
use traind_proto::event_log::EventLogReader;
use traind_proto::v1::event::Kind;
use traind_wording::counted_as;

use crate::{own_output, vectors};

/// A warning about the run's folder, which nobody asks for the run's status.
const UNASKED: &str = "SOCKET_PATH_TOO_LONG";

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    own_output::answer_request(embed)
}

fn embed(request: &EmbedRequest) -> anyhow::Result<EmbedAnswer> {
    let EmbedRequest { job, scratch, output, form } = request;
    if *form != VectorsForm::Predictions {
        check_texts(job)?;
    }
    let Embedded { predictions, warnings } = embedded(scratch, job)?;
    let writing = || format!("write {}", output.display());
    match form {
        VectorsForm::Predictions => std::fs::rename(&predictions, output).with_context(writing)?,
        VectorsForm::Tensors => vectors::write(&vectors::read(&predictions)?, output)?,
        VectorsForm::Rows => {
            vectors::write_rows(&vectors::read(&predictions)?, file_of(job), output)?;
        }
    }
    Ok(EmbedAnswer { warnings })
}

/// The vectors of a job's texts.
pub(crate) struct Embedded {
    /// The file of vectors, Parquet.
    pub predictions: PathBuf,
    pub warnings: Vec<String>,
}

/// Embeds texts by a run of `job`, whose files are in `folder`.
pub(crate) fn embedded(folder: &Path, job: &Value) -> anyhow::Result<Embedded> {
    let (mut job, output) = (job.clone(), folder.join("vectors"));
    job["output_dir"] = json!(output);
    let path = folder.join("job.json");
    std::fs::write(&path, format!("{job:#}"))
        .with_context(|| format!("write {}", path.display()))?;
    let runner = std::env::current_exe().context("find this program")?;
    let mut command = Command::new(runner);
    command.env(PARENT_VARIABLE, std::process::id().to_string());
    // A file, in which the run finds what compiler and runtime said.
    let log = folder.join("run.log");
    let said = File::create(&log).with_context(|| format!("write {}", log.display()))?;
    command.arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    let status = command.status().context("run a job")?;
    let Told { warnings, failure } = told(&output.join("run/events.log"));
    if !status.success() {
        let said = std::fs::read(&log).unwrap_or_default();
        // The last words of a process that was killed are no reason.
        let killed = status.signal().map(death);
        let last = || said_last(&String::from_utf8_lossy(&said));
        bail!("{}", failure.or(killed).unwrap_or_else(last));
    }
    Ok(Embedded { predictions: output.join("predictions.parquet"), warnings })
}

/// The events of a run that concern its texts.
#[derive(Debug, Default)]
struct Told {
    warnings: Vec<String>,
    failure: Option<String>,
}

fn told(log: &Path) -> Told {
    let events = EventLogReader::open(log).and_then(|log| log.read_from(0));
    let mut told = Told::default();
    for event in events.unwrap_or_default() {
        match event.event.kind {
            Some(Kind::Warning(warning)) if warning.code != UNASKED => {
                // The only split of such a job.
                let message = warning.message.strip_prefix("test data: ").map(str::to_owned);
                told.warnings.push(message.unwrap_or(warning.message));
            }
            Some(Kind::Finished(finished)) => {
                told.failure = finished.failure.map(|failure| failure.message);
            }
            _ => {}
        }
    }
    told
}

/// The error of a run that could not write events.
fn said_last(said: &str) -> String {
    let last = last_error(said).unwrap_or_else(|| "the run failed".to_owned());
    last.strip_prefix("error: ").map(str::to_owned).unwrap_or(last)
}

/// The end of a run by a signal.
fn death(signal: i32) -> String {
    match signal {
        9 => "the run was killed by signal 9 (SIGKILL), as the kernel does when memory runs out; \
                               fewer --cores or a smaller --batch-size take less"
            .to_owned(),
        _ => format!("the run was killed by signal {signal}"),
    }
}

fn file_of(job: &Value) -> &str {
    job["data"]["test"].as_str().unwrap_or_default()
}

/// Fails where a row lacks one of its texts, before any is embedded.
fn check_texts(job: &Value) -> anyhow::Result<()> {
    let file = file_of(job);
    let texts = job["data"]["texts"].as_array().into_iter().flatten();
    let task = TaskSpec::Embedding(Embedding {
        texts: texts.filter_map(|text| text.as_str().map(str::to_owned)).collect(),
        prompts: Vec::new(),
        label: None,
        label_column: "label".to_owned(),
        sets: Vec::new(),
    });
    let source = Source::open(&Files::from_iter([file.to_owned()]))?;
    let task = task.for_columns(source.columns());
    let columns = task.columns();
    source.require_columns(&columns)?;
    let (mut lacking, mut first) = (0_u64, None::<(Location, &str)>);
    for part in source.parts() {
        source.read(part, &columns, &mut |records| {
            for row in 0..records.len() {
                let is_missing = |name: &&&str| *records.cell(name, row) == Cell::Null;
                if let Some(column) = columns.iter().find(is_missing) {
                    lacking += 1;
                    first.get_or_insert_with(|| (source.location(part, &records, row), *column));
                }
            }
            Ok(())
        })?;
    }
    let Some((at, column)) = first else { return Ok(()) };
    ensure!(
        lacking == 0,
        "{} no text, and so would have no vectors; the first is {at}, column {column:?}: fill them in, remove \
         them, or write vectors alone as Parquet, which has missing values there",
        counted_as(lacking, "row has", "rows have"),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_lack_a_text_are_found_before_any_is_embedded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pairs.jsonl");
        let check = |rows: &str, texts: &[&str], expect: Option<&str>| {
            std::fs::write(&file, rows).unwrap();
            let checked = check_texts(&json!({ "data": { "test": file, "texts": texts } }));
            let found = checked.err().map(|error| error.to_string());
            match (&found, expect) {
                (Some(found), Some(expect)) => assert!(found.contains(expect), "{found}"),
                _ => assert_eq!(found.as_deref(), expect),
            }
        };
        let rows = "{\"a\": \"x\", \"b\": \"y\"}\n{\"a\": \"\", \"label\": null}\n{\"a\": null, \"b\": \"y\"}\n";
        check(rows, &[], Some("2 rows have no text"));
        check(rows, &[], Some("pairs.jsonl, row 1 (line 2), column \"b\": fill them in"));
        check(rows, &["a"], Some("1 row has no text"));
        check("{\"a\": \"x\", \"label\": null}\n", &[], None);
    }

    #[test]
    fn a_run_that_wrote_no_events_has_a_last_error() {
        assert_eq!(said_last("warning: x\nerror: no plugin\n\n"), "no plugin");
        assert_eq!(
            said_last("error: the job file is invalid:\n  a: b\n"),
            "the job file is invalid:\na: b"
        );
        assert_eq!(said_last(""), "the run failed");
        assert!(death(9).contains("SIGKILL") && death(6).ends_with("signal 6"));
        assert!(told(Path::new("/nonexistent/events.log")).failure.is_none());
    }
}
