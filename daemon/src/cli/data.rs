//! `traind data`: the data of a job file, without a daemon. The runner reads and tokenizes them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use traind_job_file::commands::{DataAnswer, DataRequest, SplitAnswer, SplitLengths};
use traind_proto::v1;

use super::exit::Exit;
use super::job_file::{mistakes, parsed};
use super::runner_command::{Interrupted, Interrupts, answer_of};
use super::scratch::Scratch;
use super::serve::runner_beside_this_program;
use super::show::list::{ListFormat, print_json};
use super::show::split;
use super::submit::{parse_override, read, working_directory};
use crate::paths;

/// Show the rows, lengths and classes of a job's data, without submitting it
///
/// Reads and tokenizes the files of each split as the job would, into the cache, from which the job then takes
/// them.
#[derive(clap::Args)]
pub(crate) struct Data {
    /// The job file, YAML; - is standard input. Its relative paths start at the current directory
    job_file: PathBuf,
    /// Replace a value of the job file, such as data.label=stars
    #[arg(long, value_name = "FIELD=VALUE", value_parser = parse_override)]
    set: Vec<(String, String)>,
    /// Folder for downloads and tokenized data
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Path of the runner's program [default: traind-runner next to this program]
    #[arg(long, value_name = "PATH")]
    runner: Option<PathBuf>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: ListFormat,
}

impl Data {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let base_dir = working_directory()?;
        let overrides = self.set.into_iter().collect();
        let job = parsed(&read(&self.job_file)?, &overrides, Path::new(&base_dir))?;
        let cache_dir = self.cache_dir.or_else(paths::cache_dir);
        let cache_dir = cache_dir.context("no cache folder: HOME is not set")?;
        let request = DataRequest { job, cache_dir: std::path::absolute(cache_dir)? };
        let runner = self.runner.map_or_else(runner_beside_this_program, Ok)?;
        let mut interrupts = Interrupts::watch()?;
        let scratch = Scratch::create(&std::env::temp_dir(), "data")?;
        let runner = || {
            let mut command = Command::new(&runner);
            command.env("TMPDIR", scratch.path());
            command
        };
        let answer = answer_of(runner(), "data", &request, &mut interrupts).await;
        let DataAnswer { splits, warnings } = match answer {
            Err(error) if !error.is::<Interrupted>() => {
                let found = mistakes(&request.job, runner(), &mut interrupts).await;
                return Err(found.unwrap_or(error));
            }
            answer => answer?,
        };
        warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        match self.output {
            ListFormat::Json => print_json(splits.into_iter())?,
            ListFormat::Table => splits.into_iter().for_each(|it| split::print(&data_prepared(it))),
        }
        Ok(Exit::Done)
    }
}

fn data_prepared(split: SplitAnswer) -> v1::DataPrepared {
    let SplitLengths { mean, p50, p90, p99, max } = split.lengths;
    let classes = split.classes.into_iter();
    v1::DataPrepared {
        split: split.split,
        rows: split.rows,
        files: split.files,
        tokens: split.tokens,
        truncated_rows: split.truncated_rows,
        lengths: Some(v1::TokenLengths { mean, p50, p90, p99, max }),
        classes: classes.map(|(label, rows)| v1::ClassCount { label, rows }).collect(),
        ..v1::DataPrepared::default()
    }
}
