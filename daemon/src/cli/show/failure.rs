//! Printing why a command failed: once, whole, and with every violation on its own line.

use std::error::Error as Cause;
use std::io::Write;

use anyhow::Error;
use tonic::Status;
use tonic_types::StatusExt;

use crate::interfaces::text::printable;

/// To standard error. One that takes nothing, as a log on a full disk, is no reason to panic.
pub(crate) fn print(error: &Error) {
    let _ = writeln!(std::io::stderr(), "error: {}", printable(&text(error)));
}

fn text(error: &Error) -> String {
    match error.downcast_ref::<Status>() {
        Some(status) => status_text(status),
        None => chain(error),
    }
}

fn chain(error: &Error) -> String {
    let mut causes = error.chain();
    let text = causes.next().map(ToString::to_string).unwrap_or_default();
    with_causes(text, causes)
}

/// Each cause once: many a sentence tells its own already.
fn with_causes<'a>(
    text: String,
    causes: impl Iterator<Item = &'a (dyn Cause + 'static)>,
) -> String {
    causes.map(ToString::to_string).fold(text, |text, cause| match text.contains(&cause) {
        true => text,
        false => format!("{text}: {cause}"),
    })
}

fn status_text(status: &Status) -> String {
    let details = status.get_error_details();
    let mut text = status.message().to_owned();
    if text.is_empty() {
        text = status.code().description().to_owned();
    }
    // Why there is no connection: a certificate that is refused is in here alone.
    text = with_causes(text, std::iter::successors(status.source(), |&cause| cause.source()));
    let violations = details.bad_request().map_or(&[][..], |request| &request.field_violations);
    for violation in violations {
        let line = format!("{}: {}", violation.field, violation.description);
        // A single violation may be all that the message says.
        if !text.contains(&violation.description) {
            text.push_str("\n  ");
            text.push_str(line.trim_start_matches(": "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;
    use tonic_types::ErrorDetails;

    #[test]
    fn every_violation_is_printed_once() {
        let mut details = ErrorDetails::new();
        details.add_bad_request_violation("train.learning_rate", "is -1; must be above 0");
        details.add_bad_request_violation("data.train", "is missing");
        let message = "the job file has 2 mistakes";
        let status = Status::with_error_details(Code::InvalidArgument, message, details);
        assert_eq!(
            text(&status.into()),
            "the job file has 2 mistakes\n  train.learning_rate: is -1; must be above 0\n  data.train: is missing"
        );
    }

    #[test]
    fn a_chain_reads_as_a_sentence() {
        let error = anyhow::anyhow!("no such file").context("read job.yaml");
        assert_eq!(text(&error), "read job.yaml: no such file");
    }

    #[test]
    fn a_cause_that_a_sentence_tells_already_is_not_told_again() {
        let error = anyhow::anyhow!("no such file").context("read job.yaml: no such file");
        assert_eq!(text(&error.context("start")), "start: read job.yaml: no such file");
    }
}
