//! `traind-runner data`: reads and tokenizes the data of a job, without a daemon, and answers with the rows, the
//! lengths and the classes of each split. It reads no weights and uses no cores; tokens go into the shared cache.
//!
//! Reads a [`DataRequest`] as JSON from standard input and writes a [`DataAnswer`] to standard output.

use std::path::Path;

use anyhow::Context as _;
use traind_cache::EntryLocks;
use traind_job_file::JobFile;
use traind_job_file::commands::{DataAnswer, DataRequest, SplitAnswer, SplitLengths};
use traind_proto::event_log::EventLogReader;
use traind_proto::v1::DataPrepared;
use traind_proto::v1::event::Kind;

use crate::data::{self, DataSource, lengths};
use crate::error::RunResult;
use crate::model::{ModelFolder, Processor};
use crate::own_output::answer_request;
use crate::reporting::{Activity, Downloads, Journal, Reporter, Stop};
use crate::tasks;

/// The name of the event log in the folder of the request.
const LOG: &str = "events.log";

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    answer_request(|DataRequest { job, cache_dir }| {
        let folder = tempfile::tempdir().context("make a folder for the log")?;
        describe(job.clone(), cache_dir, folder.path())
    })
}

/// The splits of a job, as a run reports them in its log.
fn describe(mut job: JobFile, cache_dir: &Path, folder: &Path) -> anyhow::Result<DataAnswer> {
    // Only the model's config and tokenizer are needed.
    job.model.from_config = true;
    let log = folder.join(LOG);
    let journal = Journal::open(&log)?;
    prepare(&job, cache_dir, folder, &journal)?;
    let events = EventLogReader::open(&log)?.read_from(0)?;
    let splits = events.into_iter().filter_map(|logged| match logged.event.kind {
        Some(Kind::DataPrepared(data)) => Some(split_answer(data)),
        _ => None,
    });
    Ok(DataAnswer { splits: splits.collect(), warnings: journal.take_warnings() })
}

fn prepare(job: &JobFile, cache_dir: &Path, folder: &Path, journal: &Journal) -> RunResult<()> {
    let stop = Stop::default();
    let reporter = Reporter { journal: journal.clone(), activity: Activity::new() };
    let locks = EntryLocks::default();
    let (cache_dir, folder) = (cache_dir.to_owned(), folder.to_owned());
    let downloads = Downloads::new(cache_dir.clone(), folder, locks, reporter, stop.clone());
    let model = ModelFolder::open(job, &downloads)?;
    let positions = model.max_positions(&job.model)?;
    lengths::check(job, positions)?;
    let task = tasks::of_job(job, &model.config)?;
    let limit = lengths::limit(job, task.as_ref(), positions);
    let tokenizer = Processor::open(&model, job, journal, limit, positions)?.text();
    let max_length = tokenizer.max_length().unwrap_or(limit).min(limit);
    let source = DataSource {
        job,
        cache_dir: &cache_dir,
        downloads: &downloads,
        journal,
        stop: &stop,
        first_rows: None,
    };
    data::prepare(&source, task.as_ref(), &tokenizer, max_length, positions).map(drop)
}

fn split_answer(data: DataPrepared) -> SplitAnswer {
    let lengths = data.lengths.unwrap_or_default();
    SplitAnswer {
        split: data.split,
        rows: data.rows,
        files: data.files,
        tokens: data.tokens,
        truncated_rows: data.truncated_rows,
        lengths: SplitLengths {
            mean: lengths.mean,
            p50: lengths.p50,
            p90: lengths.p90,
            p99: lengths.p99,
            max: lengths.max,
        },
        classes: data.classes.into_iter().map(|count| (count.label, count.rows)).collect(),
    }
}
