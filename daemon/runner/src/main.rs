//! `traind-runner RUN_DIR` runs one job on this host: the daemon starts it with a `run.json` in the run directory
//! and follows its `events.log`. `traind-runner JOB.yaml` runs one without a daemon, `traind-runner plan` estimates
//! its memory, `traind-runner measure-mpi` measures MPI on this host, `traind-runner generate` generates texts
//! with a model, `traind-runner convert-weights` makes a model folder of a GGUF file, `traind-runner mine` finds hard
//! negatives, `traind-runner embed` writes the vectors of texts, `traind-runner test-cores` tests idle cores, and
//! `traind-runner prepare` prepares a job that waits.
//!
//! Exit codes: 0 completed, 3 cancelled, 1 failed, with details in the last event; 74 events could
//! not be written.

mod checkpoint;
mod convert_weights;
mod daemon_end;
mod data;
mod decoding;
mod embed;
mod error;
mod evaluation;
mod generate;
mod hosts;
mod metrics;
mod mine;
mod model;
mod output;
mod own_output;
mod parent;
mod plan;
mod probe;
mod profile;
mod progress;
mod rates;
mod recipe;
mod remote;
mod reporting;
mod run;
mod tasks;
mod test_cores;
mod training;
mod vectors;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use tikv_jemallocator::Jemalloc;
use traind_cache::EntryLocks;
use traind_job_file::commands::error_lines;
use traind_job_file::{PREPARATION_FOLDER, RunSpec};
use traind_proto::event_log::EventLogError;
use traind_proto::v1::Outcome;
// Modules of the runner name those of the trainer as `crate::step` and the like.
use traind_trainer::{session, state, step};

use error::{RunError, explained, leave_out_earlier_lines};
use hosts::{Hosts, MeetingPlace};
use remote::Remote;
use reporting::{Activity, Journal, Reporter, Stop, print_line};
use run::Context;

/// The allocator, also of the plugin, whose programs take their buffers from it: its symbols replace those of the C
/// library. It keeps small blocks apart from large ones, so that buffers of one program fit where those of another
/// were.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const CANCELLED: u8 = 3;
/// `EX_IOERR` of sysexits.h, which the daemon checks for.
const IO_ERROR: u8 = 74;
/// These take the place of a run directory, which is always an absolute path.
const PLAN: &str = "plan";
const GENERATE: &str = "generate";
const PROBE: &str = "probe";
const PREPARE: &str = "prepare";
const DATA: &str = "data";
const CONVERT_WEIGHTS: &str = "convert-weights";
const MINE: &str = "mine";
const EMBED: &str = "embed";
const TEST_CORES: &str = "test-cores";

fn main() -> ExitCode {
    if !parent::end_with_it() {
        return ExitCode::FAILURE;
    }
    if let Err(problem) = traind_choices::check_switches() {
        print_line(problem);
        return ExitCode::FAILURE;
    }
    let Some(run_dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        print_line(
            "usage: traind-runner RUN_DIR|JOB.yaml, or traind-runner plan|generate|probe < REQUEST.json",
        );
        return ExitCode::from(2);
    };
    if run_dir == Path::new(PLAN) {
        return answered(plan::answer());
    }
    if run_dir == Path::new(plan::MEASURE_MPI) {
        return answered(plan::measure_mpi());
    }
    if run_dir == Path::new(PROBE) {
        // What plugins say themselves.
        return exit_code(probe::answer().map_err(|error| format!("{error:#}")));
    }
    if run_dir == Path::new(GENERATE) {
        return answered(generate::answer());
    }
    if run_dir == Path::new(CONVERT_WEIGHTS) {
        return answered(convert_weights::answer());
    }
    if run_dir == Path::new(MINE) {
        return answered(mine::answer());
    }
    if run_dir == Path::new(EMBED) {
        return answered(embed::answer());
    }
    if run_dir == Path::new(TEST_CORES) {
        return answered(test_cores::answer());
    }
    if run_dir == Path::new(DATA) {
        return answered(run::description::answer());
    }
    if run_dir == Path::new(PREPARE) {
        return answered(run::preparation::answer());
    }
    match run_job(&run_dir) {
        Ok(Outcome::Completed) => ExitCode::SUCCESS,
        Ok(Outcome::Cancelled) => ExitCode::from(CANCELLED),
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            print_line(error_lines(&format!("error: {}", explained(&error))));
            if is_log_failure(&error) { ExitCode::from(IO_ERROR) } else { ExitCode::FAILURE }
        }
    }
}

/// Prints why a request was not answered, with the explanation that a job's failure has.
fn answered(answered: anyhow::Result<()>) -> ExitCode {
    exit_code(answered.map_err(|error| explained(&error)))
}

fn exit_code(answered: Result<(), String>) -> ExitCode {
    match answered {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            print_line(error_lines(&message));
            ExitCode::FAILURE
        }
    }
}

/// Whether the event log failed, so that no event reports the error.
fn is_log_failure(error: &anyhow::Error) -> bool {
    error.is::<EventLogError>()
        || matches!(error.downcast_ref::<RunError>(), Some(RunError::EventLog(_)))
}

/// Runs the job of a run directory, which another may have made for several hosts, or of a job file.
fn run_job(path: &Path) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let is_standalone = path.is_file();
    let (mut spec, run_dir) = match is_standalone {
        true => run::standalone::read(path)?,
        false => (RunSpec::read(path).context("read run spec")?, path.to_owned()),
    };
    leave_out_earlier_lines();
    let placement = hosts::placement_of(&spec.job)?;
    hosts::apply_environment(&spec, placement.as_ref())?;
    let stop = Stop::default();
    stop.on_signals()?;
    let hosts = Hosts::of(placement.as_ref());
    if is_standalone {
        run::standalone::begin(&mut spec, &run_dir, &hosts)?;
    }
    let meeting_place = placement.map(|placement| MeetingPlace::new(placement, &run_dir));
    let run_dir = hosts.run_dir(&run_dir).context("make this host's run directory")?;
    // A preparation that was killed leaves its folder.
    let _ = std::fs::remove_dir_all(run_dir.join(PREPARATION_FOLDER));
    let journal = Journal::open(&run_dir.join("events.log")).context("open event log")?;
    if is_standalone && hosts.is_first() {
        journal.print();
    }
    let remote = Remote::take(&mut spec, &run_dir, journal.clone(), stop.clone())?;
    let context = Context {
        run_dir,
        spec,
        reporter: Reporter { journal, activity: Activity::new() },
        stop,
        remote,
        locks: EntryLocks::default(),
        hosts,
        meeting_place,
        is_standalone,
        started,
    };
    Ok(run::run(&context)?)
}
