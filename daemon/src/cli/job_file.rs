//! Job files that a command reads without a daemon: their mistakes have the words and the form of those at submission.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use tonic::Status;
use traind_job_file::commands::{PlanAnswer, PlanRequest};
use traind_job_file::{JobFile, Parsed};

use super::runner_command::{Interrupts, answer_of};
use crate::control::admission::{missing_files, without_missing};
use crate::control::error::{Error, FieldViolation};

/// Parses a job file, and prints its warnings.
pub(super) fn parsed(
    text: &str,
    overrides: &BTreeMap<String, String>,
    base_dir: &Path,
) -> anyhow::Result<JobFile> {
    match JobFile::parse_with_overrides(text, overrides, base_dir) {
        Ok(Parsed { job, warnings }) => {
            warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            Ok(job)
        }
        Err(violations) => Err(refusal(violations.into_iter().map(FieldViolation::from).collect())),
    }
}

/// The mistakes for which a daemon would refuse a job, by the files that it names and by the planner of `runner`; None
/// if there is none.
pub(super) async fn mistakes(
    job: &JobFile,
    runner: Command,
    interrupts: &mut Interrupts,
) -> Option<anyhow::Error> {
    let mut violations = missing_files(job, None);
    if let Some(job) = without_missing(job, &violations) {
        let request = PlanRequest {
            job,
            bytes_per_core_max: None,
            may_fetch: false,
            device: String::new(),
            instructions_max: None,
            with_effects: false,
            search: None,
        };
        // A planner that fails leaves the error that its caller has.
        if let Ok(PlanAnswer::Violations(found)) =
            answer_of(runner, "plan", &request, interrupts).await
        {
            violations.extend(found.into_iter().map(FieldViolation::from));
        }
    }
    (!violations.is_empty()).then(|| refusal(violations))
}

/// The error that a daemon answers with.
fn refusal(violations: Vec<FieldViolation>) -> anyhow::Error {
    Status::from(Error::JobFile { violations }).into()
}
