//! `traind-runner RUN_DIR`: runs one job on this host; `traind-runner plan` tells what one
//! would take. The daemon starts it with a `run.json` in the run directory and follows its
//! `events.log`.
//!
//! Exit codes: 0 completed, 3 cancelled, 1 failed; the last event says more. 74: events could not
//! be written.

mod checkpoint;
mod control;
mod data;
mod error;
mod evaluation;
mod hub;
mod metrics;
mod model;
mod output;
mod plan;
mod progress;
mod run;
mod session;
mod state;
mod step;
mod tasks;
mod training;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use traind_cache::EntryLocks;
use traind_job_file::RunSpec;
use traind_proto::event_log::EventLogError;
use traind_proto::v1::Outcome;

use control::{Activity, Context, Journal, Stop, say};
use error::RunError;

const CANCELLED: u8 = 3;
/// As in sysexits.h; the daemon knows it too.
const IO_ERROR: u8 = 74;
/// In the place of a run directory, which is always an absolute path.
const PLAN: &str = "plan";

fn main() -> ExitCode {
    let Some(run_dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        say("usage: traind-runner RUN_DIR, or traind-runner plan < REQUEST.json");
        return ExitCode::from(2);
    };
    if run_dir == Path::new(PLAN) {
        return match plan::answer() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say(format_args!("{error:#}"));
                ExitCode::FAILURE
            }
        };
    }
    match execute(&run_dir) {
        Ok(Outcome::Completed) => ExitCode::SUCCESS,
        Ok(Outcome::Cancelled) => ExitCode::from(CANCELLED),
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            say(format_args!("error: {error:#}"));
            if is_mute(&error) { ExitCode::from(IO_ERROR) } else { ExitCode::FAILURE }
        }
    }
}

/// Whether the events that should tell of it could not be written.
fn is_mute(error: &anyhow::Error) -> bool {
    error.is::<EventLogError>()
        || matches!(error.downcast_ref::<RunError>(), Some(RunError::EventLog(_)))
}

fn execute(run_dir: &Path) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let stop = Stop::default();
    stop.on_signals()?;
    let spec = RunSpec::read(run_dir).context("read run spec")?;
    let journal = Journal::open(&run_dir.join("events.log")).context("open event log")?;
    let context = Context {
        run_dir: run_dir.to_owned(),
        activity: Activity::new(),
        spec,
        journal,
        stop,
        locks: EntryLocks::default(),
        started,
    };
    Ok(run::run(&context)?)
}
