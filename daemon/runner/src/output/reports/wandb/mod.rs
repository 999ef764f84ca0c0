//! W&B's offline format: a folder for each run, whose log `wandb sync` uploads.
//!
//! The rows of the run's history are the entries of `log_history`, under the names of transformers'
//! `WandbCallback`. Later attempts of a job continue its run: what the log has after the checkpoint that
//! they resume from is removed first.

mod record_log;
mod records;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use prost_types::Timestamp;
use serde_json::{Map, Value, json};

use super::super::{LogEntry, failed, write_of_several};
use super::About;
use crate::error::RunResult;
use record_log::RecordLog;
use records::{
    Content, Environment, Exit, Header, History, Item, Metric, MetricOptions, RowNumber, Run,
    Updates, Version,
};

/// The project of WandbCallback.
const PROJECT: &str = "huggingface";
/// The oldest version of W&B that can read the log, as W&B itself states it.
const MIN_CONSUMER: &str = "0.70.0";
const FOLDER_PREFIX: &str = "offline-run-";
/// The metric over which the others are drawn.
const STEP: &str = "train/global_step";
/// Values of a whole training, which are no rows of the history.
const OF_TRAINING: [&str; 5] = [
    "train_runtime",
    "train_samples_per_second",
    "train_steps_per_second",
    "train_loss",
    "total_flos",
];

/// The run of a job.
#[derive(Debug)]
pub(super) struct WandbRun {
    folder: PathBuf,
    log: RecordLog,
    start: Timestamp,
    rows: usize,
    summary: Map<String, Value>,
    is_finished: bool,
}

impl WandbRun {
    /// Opens the run of a job in the folder `wandb`, which is created. Afterwards its history is `logged`,
    /// the log of the job so far.
    pub(super) fn open(
        wandb: &Path,
        about: &About<'_>,
        logged: &[LogEntry],
    ) -> RunResult<WandbRun> {
        let now = now();
        let folder = folder(wandb, about.job_id, now)?;
        let files = folder.join("files");
        fs::create_dir_all(&files).map_err(failed("create", &files))?;
        let path = folder.join(format!("run-{}.wandb", about.job_id));
        let (mut rows, mut start) = (0, now);
        let log = RecordLog::open(&path, |content| {
            match content {
                Content::History(_) if rows == logged.len() => return false,
                Content::History(_) => rows += 1,
                Content::Run(run) => start = run.start.unwrap_or(now),
                _ => {}
            }
            !matches!(content, Content::Exit(_))
        })?;
        let is_new = log.is_empty();
        let mut run =
            WandbRun { folder, log, start, rows: 0, summary: Map::new(), is_finished: false };
        if is_new {
            run.begin(about)?;
        }
        for (number, entry) in logged.iter().enumerate() {
            run.add(entry, number >= rows)?;
        }
        run.write_config(&about.config)?;
        unmark_synced(&path)?;
        Ok(run)
    }

    /// Appends a row.
    pub(super) fn log(&mut self, entry: &LogEntry) -> RunResult<()> {
        self.add(entry, true)
    }

    /// Notes that the job has completed.
    pub(super) fn finish(&mut self) -> RunResult<()> {
        self.log.append(Content::Summary(updates(&self.summary)))?;
        self.end(0)?;
        let path = self.folder.join("files").join("wandb-summary.json");
        let summary = Value::Object(self.summary.clone());
        write_of_several(&path, summary.to_string().as_bytes())?;
        self.log.sync()
    }

    /// Writes the records that precede the history.
    fn begin(&mut self, about: &About<'_>) -> RunResult<()> {
        let (start, host) = (Some(self.start), about.host.to_owned());
        let version = Version {
            producer: format!("traind {}", env!("CARGO_PKG_VERSION")),
            min_consumer: MIN_CONSUMER.to_owned(),
        };
        self.log.append(Content::Header(Header { version: Some(version) }))?;
        self.log.append(Content::Run(Run {
            id: about.job_id.to_owned(),
            project: about.project.unwrap_or(PROJECT).to_owned(),
            config: Some(updates(&about.config)),
            display_name: about.run_name.to_owned(),
            host: host.clone(),
            start,
        }))?;
        self.log.append(Content::Environment(Environment {
            os: std::env::consts::OS.to_owned(),
            started_at: start,
            program: "traind".to_owned(),
            root: about.output_dir.display().to_string(),
            host,
            writer_id: about.job_id.to_owned(),
        }))?;
        let defined = Some(MetricOptions { defined: true, step_sync: false });
        self.log.append(Content::Metric(Metric {
            name: STEP.to_owned(),
            options: defined,
            ..Metric::default()
        }))?;
        self.log.append(Content::Metric(Metric {
            glob_name: "*".to_owned(),
            step_metric: STEP.to_owned(),
            options: Some(MetricOptions { defined: true, step_sync: true }),
            ..Metric::default()
        }))
    }

    /// Adds an entry to the history and to the summary. `is_new`: the log does not have it yet.
    fn add(&mut self, entry: &LogEntry, is_new: bool) -> RunResult<()> {
        let (mut row, of_training) = named(entry);
        let now = now();
        row.insert("_step".to_owned(), json!(self.rows));
        row.insert("_timestamp".to_owned(), json!(unix_seconds(now)));
        row.insert("_runtime".to_owned(), json!(self.runtime(now)));
        let history = Content::History(History {
            items: items(&row),
            step: Some(RowNumber { number: self.rows as i64 }),
        });
        self.rows += 1;
        row.extend(of_training);
        if is_new {
            self.log.append(history)?;
            self.log.append(Content::Summary(updates(&row)))?;
        }
        self.summary.extend(row);
        Ok(())
    }

    fn end(&mut self, exit_code: i32) -> RunResult<()> {
        self.is_finished = true;
        let runtime_seconds = self.runtime(now()) as i32;
        self.log.append(Content::Exit(Exit { exit_code, runtime_seconds }))
    }

    /// Seconds since the start of the first attempt.
    fn runtime(&self, now: Timestamp) -> f64 {
        (unix_seconds(now) - unix_seconds(self.start)).max(0.0)
    }

    /// Writes `config.yaml` as W&B does: each key has its value below it.
    fn write_config(&self, config: &Map<String, Value>) -> RunResult<()> {
        // JSON is YAML.
        let line = |(key, value): (&String, &Value)| format!("{}:\n  value: {value}\n", json!(key));
        let text: String = config.iter().map(line).collect();
        write_of_several(&self.folder.join("files").join("config.yaml"), text.as_bytes())
    }
}

/// A run that ends otherwise has not completed.
impl Drop for WandbRun {
    fn drop(&mut self) {
        if !self.is_finished {
            // The run already ends with another error.
            let _ = self.end(1);
        }
    }
}

/// Returns the folder of a job's run: that of an earlier attempt, or a new one.
fn folder(wandb: &Path, id: &str, now: Timestamp) -> RunResult<PathBuf> {
    fs::create_dir_all(wandb).map_err(failed("create", wandb))?;
    let suffix = format!("-{id}");
    let listed = fs::read_dir(wandb).map_err(failed("list", wandb))?;
    let names = listed.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let known =
        names.filter(|name| name.starts_with(FOLDER_PREFIX) && name.ends_with(&suffix)).min();
    let new = || format!("{FOLDER_PREFIX}{}{suffix}", compact(now));
    Ok(wandb.join(known.unwrap_or_else(new)))
}

fn now() -> Timestamp {
    Timestamp::from(SystemTime::now())
}

/// Seconds since 1970.
fn unix_seconds(time: Timestamp) -> f64 {
    time.seconds as f64 + f64::from(time.nanos) / 1e9
}

/// Formats a time as `YYYYMMDD_HHMMSS` in UTC.
fn compact(time: Timestamp) -> String {
    let seconds = Timestamp { nanos: 0, ..time };
    seconds.to_string().replace(['-', ':', 'Z'], "").replace('T', "_")
}

/// Lets `wandb sync` upload a run again, by removing its notes beside the log.
fn unmark_synced(log: &Path) -> RunResult<()> {
    for note in ["wandb.synced", "wandb.syncstate"] {
        let note = log.with_extension(note);
        match fs::remove_file(&note) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(failed("remove", &note)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

type Values = Map<String, Value>;

/// Splits an entry of `log_history` into a row and values of the whole training, under the names of
/// WandbCallback.
fn named(entry: &LogEntry) -> (Values, Values) {
    let (mut row, mut of_training) = (Map::new(), Map::new());
    for (name, value) in entry.iter().filter(|(_, value)| !value.is_null()) {
        let evaluated = ["eval", "test"].into_iter().find_map(|split| {
            let metric = name.strip_prefix(split)?.strip_prefix('_')?;
            Some(format!("{split}/{metric}"))
        });
        let (values, key) = match (name.as_str(), evaluated) {
            ("step", _) => (&mut row, STEP.to_owned()),
            (name, _) if OF_TRAINING.contains(&name) => (&mut of_training, name.to_owned()),
            (_, Some(key)) => (&mut row, key),
            (name, None) => (&mut row, format!("train/{name}")),
        };
        values.insert(key, value.clone());
    }
    (row, of_training)
}

fn updates(values: &Values) -> Updates {
    Updates { updates: items(values) }
}

fn items(values: &Values) -> Vec<Item> {
    values.iter().map(|(key, value)| Item::new(key, value)).collect()
}

#[cfg(test)]
mod tests;
