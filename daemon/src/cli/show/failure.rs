//! Prints a command's error: its whole chain of causes once, and each violation on its own line.

use std::io::Write;

use anyhow::Error;
use tonic::Status;
use tonic_types::StatusExt;
use traind_proto::error_chain::{append_causes, error_chain};

use crate::interfaces::text::printable;

/// Prints to standard error. Ignores failed writes, as of a log on a full disk.
pub(crate) fn print(error: &Error) {
    let _ = writeln!(std::io::stderr(), "error: {}", printable(&text(error)));
}

fn text(error: &Error) -> String {
    match error.downcast_ref::<Status>() {
        Some(status) => status_text(status),
        None => error_chain(error.as_ref()),
    }
}

fn status_text(status: &Status) -> String {
    let details = status.get_error_details();
    let mut text = status.message().to_owned();
    if text.is_empty() {
        text = status.code().description().to_owned();
    }
    // Has the reasons of failed connections, such as a refused certificate.
    text = append_causes(text, status);
    let violations = details.bad_request().map_or(&[][..], |request| &request.field_violations);
    for violation in violations {
        let line = format!("{}: {}", violation.field, violation.description);
        // The message may already contain a single violation.
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
    fn a_cause_that_the_message_contains_is_not_repeated() {
        let error = anyhow::anyhow!("no such file").context("read job.yaml: no such file");
        assert_eq!(text(&error.context("start")), "start: read job.yaml: no such file");
    }
}
