//! Conversion of the daemon's errors to gRPC status: code, reason and details.

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use traind_proto::reasons;
use traind_wording::counted;

use crate::control::error::{Error, FieldViolation, GenerationError};

/// The longest message and the longest violations, in bytes. They are headers, whose other characters than letters take
/// three bytes, once more in base64, and of which clients accept 16 KiB.
const MESSAGE_BYTES_MAX: usize = 1500;
const VIOLATIONS_BYTES_MAX: usize = 4000;
const VIOLATION_BYTES_MAX: usize = 1000;
/// The bytes around a violation.
const FRAME_BYTES: usize = 8;

/// The delay that clients of an overloaded daemon are to wait.
const BUSY_DELAY: Duration = Duration::from_secs(1);

impl From<Error> for Status {
    fn from(error: Error) -> Status {
        if let Error::Store(source) = &error {
            tracing::error!(error = %source, "answer a request");
        }
        let (code, reason) = classify(&error);
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, reasons::DOMAIN, metadata(&error));
        if let Error::Busy { .. } = &error {
            details.set_retry_info(Some(BUSY_DELAY));
        }
        for FieldViolation { field, description } in within_headers(violations(&error)) {
            details.add_bad_request_violation(field, description);
        }
        Status::with_error_details(code, clipped(&error.to_string(), MESSAGE_BYTES_MAX), details)
    }
}

/// The first violations, as many as a client can get, and the number of the others.
fn within_headers(violations: Vec<FieldViolation>) -> Vec<FieldViolation> {
    let (count, mut bytes, mut kept) = (violations.len(), 0, Vec::new());
    for FieldViolation { field, description } in violations {
        let field = clipped(&field, VIOLATION_BYTES_MAX);
        let description = clipped(&description, VIOLATION_BYTES_MAX);
        bytes += field.len() + description.len() + FRAME_BYTES;
        if bytes > VIOLATIONS_BYTES_MAX {
            let more = counted(count - kept.len(), "more mistake").to_string();
            kept.push(FieldViolation { field: "and".to_owned(), description: more });
            break;
        }
        kept.push(FieldViolation { field, description });
    }
    kept
}

/// The beginning of a text that has more bytes.
fn clipped(text: &str, bytes_max: usize) -> String {
    match text.len() <= bytes_max {
        true => text.to_owned(),
        false => format!("{}…", &text[..text.floor_char_boundary(bytes_max)]),
    }
}

fn classify(error: &Error) -> (Code, &'static str) {
    match error {
        Error::JobFile { .. } => (Code::InvalidArgument, reasons::JOB_FILE_INVALID),
        Error::Request { .. } => (Code::InvalidArgument, reasons::REQUEST_INVALID),
        Error::PageToken => (Code::InvalidArgument, reasons::PAGE_TOKEN_INVALID),
        Error::Cores { .. } | Error::CoresOfUser { .. } | Error::CoresOfGroup { .. } => {
            (Code::InvalidArgument, reasons::CORES_EXCEEDED)
        }
        Error::Quota { .. } | Error::Followed { .. } => {
            (Code::FailedPrecondition, reasons::QUOTA_EXCEEDED)
        }
        Error::CoreCount { .. } => (Code::InvalidArgument, reasons::CORE_COUNT_INVALID),
        Error::Platform { .. } => (Code::FailedPrecondition, reasons::PLATFORM_UNAVAILABLE),
        Error::Engine { .. } => (Code::FailedPrecondition, reasons::ENGINE_UNAVAILABLE),
        Error::Plugin { .. } => (Code::FailedPrecondition, reasons::PLUGIN_NOT_FOUND),
        Error::Memory { .. } => (Code::FailedPrecondition, reasons::MEMORY_EXCEEDED),
        Error::Disk { .. } => (Code::FailedPrecondition, reasons::DISK_EXCEEDED),
        Error::Generation(GenerationError::Task(_)) => {
            (Code::FailedPrecondition, reasons::MODEL_UNSUPPORTED)
        }
        Error::Generation(GenerationError::Refused { reason, .. }) => {
            (Code::FailedPrecondition, reason)
        }
        Error::Generation(_) => (Code::FailedPrecondition, reasons::GENERATION_FAILED),
        Error::Profile { .. } => (Code::FailedPrecondition, reasons::PROFILE_FAILED),
        Error::Plan(_) => (Code::FailedPrecondition, reasons::PLAN_FAILED),
        Error::FolderInUse { .. } => (Code::FailedPrecondition, reasons::OUTPUT_DIR_IN_USE),
        Error::Denied(_) | Error::NoAccount { .. } | Error::ForeignRun { .. } => {
            (Code::PermissionDenied, reasons::PERMISSION_DENIED)
        }
        Error::Unauthenticated | Error::InvalidToken => {
            (Code::Unauthenticated, reasons::UNAUTHENTICATED)
        }
        Error::NoToken { .. } => (Code::NotFound, reasons::TOKEN_NOT_FOUND),
        Error::Busy { .. } | Error::SlowReader => (Code::ResourceExhausted, reasons::BUSY),
        Error::SlowRequest(_) => (Code::DeadlineExceeded, reasons::BUSY),
        Error::NoJob { .. } => (Code::NotFound, reasons::JOB_NOT_FOUND),
        Error::Ambiguous { .. } => (Code::InvalidArgument, reasons::JOB_AMBIGUOUS),
        Error::RequestReused { .. } => (Code::AlreadyExists, reasons::REQUEST_ID_REUSED),
        Error::Illegal { .. } => (Code::FailedPrecondition, reasons::JOB_ENDED),
        Error::ShuttingDown | Error::Draining => (Code::Unavailable, reasons::SHUTTING_DOWN),
        Error::NoWeb => (Code::FailedPrecondition, reasons::WEB_DISABLED),
        Error::Store(_) => (Code::Internal, reasons::STORE_FAILED),
        Error::Ledger(_) | Error::Programs(_) | Error::Link(_) | Error::HostLog(_) => {
            (Code::Internal, reasons::RUN_DIRECTORY_FAILED)
        }
        Error::Access(_)
        | Error::Switch(_)
        | Error::Random(_)
        | Error::Audit(_)
        | Error::Resolved(_)
        | Error::Fork(_) => (Code::Internal, reasons::INTERNAL),
    }
}

/// The invalid fields of the request; those of a job file by their paths.
fn violations(error: &Error) -> Vec<FieldViolation> {
    let one = |field: &str| {
        vec![FieldViolation { field: field.to_owned(), description: error.to_string() }]
    };
    match error {
        Error::JobFile { violations } => violations.clone(),
        Error::Request { field, description } => {
            vec![FieldViolation { field: (*field).to_owned(), description: description.clone() }]
        }
        Error::PageToken => one("page_token"),
        Error::Cores { .. }
        | Error::CoresOfUser { .. }
        | Error::CoresOfGroup { .. }
        | Error::CoreCount { .. } => one("resources.cores"),
        Error::Ambiguous { .. } => one("job_id"),
        Error::Memory { misfit, .. } => {
            misfit.changes.iter().flat_map(|change| one(&change.field)).collect()
        }
        Error::Disk { .. } => one("output_dir"),
        _ => Vec::new(),
    }
}

/// Details for clients that do not parse the message.
fn metadata(error: &Error) -> HashMap<String, String> {
    let pairs: Vec<(&str, String)> = match error {
        Error::Cores { platform, available, wanted } => vec![
            ("platform", platform.clone()),
            ("available", available.to_string()),
            ("wanted", wanted.to_string()),
        ],
        Error::Plugin { platform, .. } | Error::Platform { platform, .. } => {
            vec![("platform", platform.clone())]
        }
        Error::FolderInUse { id, .. }
        | Error::RequestReused { id, .. }
        | Error::Profile { id, .. }
        | Error::Illegal { id, .. } => vec![("job_id", id.clone())],
        _ => Vec::new(),
    };
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header_bytes(error: Error) -> usize {
        let response = Status::from(error).into_http::<()>();
        let headers = response.headers().iter();
        headers.map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
    }

    #[test]
    fn errors_of_any_length_fit_in_the_headers_of_a_response() {
        let long = "\u{1f980}".repeat(1 << 14);
        let violation = |field: &str, description: &str| FieldViolation {
            field: field.to_owned(),
            description: description.to_owned(),
        };
        let many = (0..1000).map(|number| violation(&format!("key-{number}"), "is no key"));
        let of = |violations| Error::JobFile { violations };
        for error in [
            Error::NoJob { reference: long.clone() },
            Error::Request { field: "name", description: long.clone() },
            of(many.clone().collect()),
            of(vec![violation(&long, &long), violation("name", "is too long")]),
            of((0..9).map(|_| violation("name", &long)).collect()),
        ] {
            let described = format!("{error:?}").chars().take(60).collect::<String>();
            let bytes = header_bytes(error);
            assert!(bytes < 16 << 10, "{described}: {bytes}");
        }
        let status = Status::from(of(many.collect()));
        let shown = status.get_details_bad_request().unwrap().field_violations;
        assert!(shown.len() > 100 && shown[0].field == "key-0", "{}", shown.len());
        let last = shown.last().unwrap();
        assert_eq!(last.description, format!("{} more mistakes", 1001 - shown.len()));
    }
}
