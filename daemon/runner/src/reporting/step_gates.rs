//! Step gates, a seam for tests: a run waits after a step until the test opens the gate, or before it
//! tokenizes the rows that it did not begin with.
//!
//! A gate is a file named `STEP` or [`LATER_ROWS`] in the folder `JOB_NAME` of the directory that
//! [`DIRECTORY`] names. The daemon sets that variable only where it was started with
//! `--test-step-gates`, so that other runs have no gates. Step 0 is before the first one.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::Stop;

const DIRECTORY: &str = "TRAIND_TEST_STEP_GATES";
/// The gate of the rows that a run does not begin with.
const LATER_ROWS: &str = "later-rows";
const POLL: Duration = Duration::from_millis(5);

/// The gates of one job.
#[derive(Clone, Debug)]
pub(crate) struct StepGates {
    folder: Option<PathBuf>,
}

impl StepGates {
    /// The gates of the job that the environment names; none in production.
    pub(crate) fn from_environment(job_name: &str) -> StepGates {
        let directory = std::env::var_os(DIRECTORY);
        StepGates { folder: directory.map(|directory| Path::new(&directory).join(job_name)) }
    }

    /// Whether a run waits after `step`.
    pub(crate) fn is_closed(&self, step: u64) -> bool {
        self.is_gate_closed(&step.to_string())
    }

    fn is_gate_closed(&self, name: &str) -> bool {
        self.folder.as_ref().is_some_and(|folder| folder.join(name).exists())
    }

    /// Reports the arrival by a file `STEP.reached`, and waits until the gate after `step` opens
    /// or a stop is requested.
    pub(crate) fn wait(&self, step: u64, stop: &Stop) {
        self.wait_at(&step.to_string(), stop);
    }

    /// Waits for the gate before the rows that the run did not begin with are tokenized.
    pub(crate) fn wait_for_later_rows(&self, stop: &Stop) {
        if self.is_gate_closed(LATER_ROWS) {
            self.wait_at(LATER_ROWS, stop);
        }
    }

    fn wait_at(&self, name: &str, stop: &Stop) {
        let Some(folder) = &self.folder else { return };
        // The test that made the folder may have removed it since.
        let _ = fs::write(folder.join(format!("{name}.reached")), []);
        while self.is_gate_closed(name) && stop.reason().is_none() {
            thread::sleep(POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reporting::StopReason;

    fn gates(folder: &Path) -> StepGates {
        StepGates { folder: Some(folder.to_owned()) }
    }

    #[test]
    fn a_run_waits_at_a_closed_gate_until_it_opens() {
        let folder = tempfile::tempdir().unwrap();
        let gates = gates(folder.path());
        fs::write(folder.path().join("7"), []).unwrap();
        assert_eq!([6, 7].map(|step| gates.is_closed(step)), [false, true]);
        let waiting = thread::spawn(move || gates.wait(7, &Stop::default()));
        while !folder.path().join("7.reached").exists() {
            thread::yield_now();
        }
        assert!(!waiting.is_finished());
        fs::remove_file(folder.path().join("7")).unwrap();
        waiting.join().unwrap();
    }

    #[test]
    fn a_requested_stop_passes_a_closed_gate() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("7"), []).unwrap();
        let stop = Stop::default();
        stop.request(StopReason::Cancelled);
        gates(folder.path()).wait(7, &stop);
        assert!(folder.path().join("7").exists());
    }

    #[test]
    fn a_run_outside_of_tests_has_no_gates() {
        let gates = StepGates { folder: None };
        assert!(!gates.is_closed(0));
        gates.wait(0, &Stop::default());
    }
}
