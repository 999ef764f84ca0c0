//! A run without a daemon: `traind-runner JOB.yaml`, started once on each host.
//!
//! The run directory is `run` in the output folder, so that starting the same command again resumes the run.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use traind_job_file::{DataFiles, JobFile, Parsed, Platform, RunSpec};
use traind_proto::event_log::EventLogReader;
use traind_proto::reasons;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Finished, Outcome};

use crate::hosts::Hosts;
use crate::reporting::print_line;

/// The folder of the run in the output folder.
const RUN: &str = "run";

/// Reads a job file, whose relative paths start at the current directory. Returns the run, and the run
/// directory of all hosts.
pub(crate) fn read(path: &Path) -> anyhow::Result<(RunSpec, PathBuf)> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let base_dir = std::env::current_dir().context("find the current directory")?;
    let job = parse(&text, &base_dir)?;
    let platform = job.resources.platform.to_string();
    let plugin = traind_pjrt::installed_plugin(&platform);
    let plugin = plugin.with_context(|| {
        format!("no plugin for {platform} is installed; run `traind plugins install {platform}`")
    })?;
    let cache_dir = traind_pjrt::cache_dir().context("set TRAIND_CACHE_DIR")?;
    let [plugin, cache_dir] = [plugin, cache_dir].map(|path| base_dir.join(path));
    let run_dir = run_dir(&job, &base_dir);
    let spec = RunSpec {
        job_id: job.name.clone(),
        attempt: 1,
        cores: (0..job.resources.cores).collect(),
        job,
        plugin,
        cache_dir,
        cache_bytes_max: None,
        device_kind: String::new(),
    };
    Ok((spec, run_dir))
}

/// Counts this attempt among those of `run_dir`, and writes `run.json` for those who follow the run.
pub(crate) fn begin(spec: &mut RunSpec, run_dir: &Path, hosts: &Hosts) -> anyhow::Result<()> {
    std::fs::create_dir_all(run_dir).with_context(|| format!("create {}", run_dir.display()))?;
    spec.attempt = attempt(&run_dir.join("events.log"));
    if hosts.is_first() {
        spec.write(run_dir)?;
    }
    if spec.job.resources.platform == Platform::Neuron {
        enter(run_dir).with_context(|| format!("change to {}", run_dir.display()))?;
    }
    Ok(())
}

/// Neuron's compiler, which the plugin starts, leaves a log and other files in the current directory.
#[allow(
    clippy::disallowed_methods,
    reason = "the plugin starts the compiler, and all paths are absolute"
)]
fn enter(run_dir: &Path) -> std::io::Result<()> {
    std::env::set_current_dir(run_dir)
}

fn parse(text: &str, base_dir: &Path) -> anyhow::Result<JobFile> {
    match JobFile::parse(text, base_dir) {
        Ok(Parsed { job, warnings }) => {
            warnings.iter().for_each(|warning| print_line(format_args!("warning: {warning}")));
            Ok(job)
        }
        Err(violations) => {
            let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
            bail!("the job file is invalid:\n{}", lines.join("\n"))
        }
    }
}

/// An output folder in a bucket cannot hold the log, which is then in the current directory.
fn run_dir(job: &JobFile, base_dir: &Path) -> PathBuf {
    match DataFiles::is_object(&job.output_dir) {
        true => base_dir.join(format!("{}-{RUN}", job.name)),
        false => job.output_dir.join(RUN),
    }
}

/// The number of this attempt: one more than the log has, unless the run was completed.
fn attempt(log: &Path) -> u32 {
    let events = EventLogReader::open(log).and_then(|log| log.read_from(0));
    let (mut attempts, mut last) = (HashSet::new(), 0);
    for logged in events.unwrap_or_default() {
        match logged.event.kind {
            Some(Kind::Started(started)) => {
                last = started.attempt;
                attempts.insert(last);
            }
            Some(Kind::Finished(finished)) if finished.outcome() == Outcome::Completed => {
                attempts.clear();
            }
            Some(Kind::Finished(finished)) if is_refused(&finished) => drop(attempts.remove(&last)),
            _ => {}
        }
    }
    attempts.into_iter().max().unwrap_or_default() + 1
}

/// Whether a run wrote nothing, since its folder has files of others or is in use.
fn is_refused(finished: &Finished) -> bool {
    let reason = finished.failure.as_ref().map_or("", |failure| failure.reason.as_str());
    [reasons::OUTPUT_DIR_OCCUPIED, reasons::OUTPUT_DIR_IN_USE].contains(&reason)
}

#[cfg(test)]
mod tests {
    use traind_proto::event_log::EventLogWriter;
    use traind_proto::v1::{Failure, Started};

    use super::*;

    fn job(output_dir: &str) -> JobFile {
        let yaml = format!(
            "{{name: a, model: {{name_or_path: ./a, task: sequence-classification, num_labels: 2}}, \
             data: {{train: a.csv}}, output_dir: \"{output_dir}\"}}"
        );
        parse(&yaml, Path::new("/base")).unwrap()
    }

    #[test]
    fn the_run_directory_is_in_the_output_folder() {
        let check = |output_dir, expect: &str| {
            assert_eq!(run_dir(&job(output_dir), Path::new("/base")), Path::new(expect));
        };
        check("out", "/base/out/run");
        check("s3://bucket/out", "/base/a-run");
    }

    #[test]
    fn a_job_file_that_is_refused_names_its_mistakes() {
        let error = parse("{nam: a}", Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("nam") && error.contains("output_dir"), "{error}");
    }

    #[test]
    fn attempts_are_counted_until_the_run_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.log");
        let mut log = EventLogWriter::open(&path).unwrap();
        let mut check = |kind: Option<Kind>, expect| {
            kind.map(|kind| log.append(kind).unwrap());
            assert_eq!(attempt(&path), expect);
        };
        let started = |attempt| Some(Kind::Started(Started { attempt, ..Started::default() }));
        let finished = |outcome: Outcome| {
            Some(Kind::Finished(Finished { outcome: outcome.into(), ..Finished::default() }))
        };
        check(None, 1);
        check(started(1), 2);
        check(finished(Outcome::Failed), 2);
        check(started(2), 3);
        check(finished(Outcome::Completed), 1);
        let failure =
            Failure { reason: reasons::OUTPUT_DIR_OCCUPIED.to_owned(), ..Failure::default() };
        check(started(1), 2);
        check(Some(Kind::Finished(Finished { failure: Some(failure), ..Finished::default() })), 1);
    }
}
