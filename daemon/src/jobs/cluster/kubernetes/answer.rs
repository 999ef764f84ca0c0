//! Errors of the API server, as `kubectl` prints them.

use super::super::ClusterError;

/// The server, in messages.
const SERVER: &str = "Kubernetes";
/// Reasons for which the server refuses a request, however often it is made.
const REFUSALS: [&str; 7] = [
    "AlreadyExists",
    "BadRequest",
    "Forbidden",
    "Invalid",
    "MethodNotAllowed",
    "NotFound",
    "RequestEntityTooLarge",
];
/// A forbidden request that is permitted once other jobs have ended.
const QUOTA: &str = "exceeded quota";
/// The beginning of errors that the server's answer explains, before the answer's reason in parentheses.
const OF_SERVER: &str = "Error from server (";
const OF_CREDENTIALS: &str = "You must be logged in to the server";

/// A request that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The reason of the server's answer, such as `Forbidden`; empty where it gave no answer.
    reason: String,
    message: String,
}

impl Problem {
    /// Reads what `kubectl` printed.
    pub(super) fn parse(errors: &str) -> Problem {
        let mut lines: Vec<&str> =
            errors.lines().map(str::trim).filter(|it| is_message(it)).collect();
        lines.dedup();
        let text = lines.join("; ");
        if let Some((reason, message)) =
            text.strip_prefix(OF_SERVER).and_then(|rest| rest.split_once("): "))
        {
            return Problem { reason: reason.to_owned(), message: message.to_owned() };
        }
        let message = text.strip_prefix("error: ").unwrap_or(&text);
        let message = message.split(" - did you specify").next().unwrap_or_default();
        let reason = match message {
            it if it.starts_with(OF_CREDENTIALS) => "Unauthorized",
            it if it.starts_with("The ") && it.contains(" is invalid") => "Invalid",
            _ => "",
        };
        Problem { reason: reason.to_owned(), message: message.to_owned() }
    }

    /// Whether the server gave this reason.
    pub(super) fn is(&self, reason: &str) -> bool {
        self.reason == reason
    }

    /// The error as users read it. Without an answer, or after one that blames the server, the same request may succeed
    /// later.
    pub(super) fn into_error(self) -> ClusterError {
        let Problem { reason, mut message } = self;
        let is_final = REFUSALS.contains(&reason.as_str()) && !message.contains(QUOTA);
        if reason == "Forbidden" && is_final {
            message.push_str("; the daemon's user needs the role of scripts/kubernetes/rbac.yaml");
        }
        match is_final {
            true => ClusterError::Refused { program: SERVER, message },
            false => ClusterError::Unavailable { program: SERVER, message },
        }
    }
}

/// Whether a line is no log line of `kubectl`'s libraries, such as `E1123 13:59:49.553953 …`, and no warning.
fn is_message(line: &str) -> bool {
    let mut letters = line.chars();
    let is_log = letters.next().is_some_and(|level| "IWEF".contains(level))
        && letters.by_ref().take(4).filter(char::is_ascii_digit).count() == 4
        && letters.next() == Some(' ');
    !line.is_empty() && !is_log && !line.starts_with("Warning:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(errors: &str, expect: &str, transient: bool) {
        let error = Problem::parse(errors).into_error();
        assert_eq!((error.to_string().as_str(), error.is_transient()), (expect, transient));
    }

    /// Messages of versions 1.20 to 1.33.
    #[test]
    fn what_the_server_refuses_is_final_and_all_else_may_pass() {
        check(
            "Error from server (Forbidden): jobs.batch is forbidden: User \"a\" cannot create resource \"jobs\"",
            "Kubernetes refused: jobs.batch is forbidden: User \"a\" cannot create resource \"jobs\"; the daemon's \
             user needs the role of scripts/kubernetes/rbac.yaml",
            false,
        );
        check(
            "Error from server (Forbidden): pods \"x\" is forbidden: exceeded quota: gpus",
            "Kubernetes: pods \"x\" is forbidden: exceeded quota: gpus",
            true,
        );
        check(
            "The Job \"x\" is invalid: spec.completions: Invalid value: -1",
            "Kubernetes refused: The Job \"x\" is invalid: spec.completions: Invalid value: -1",
            false,
        );
        check("The request is invalid", "Kubernetes refused: The request is invalid", false);
        check(
            "error: You must be logged in to the server (Unauthorized)",
            "Kubernetes: You must be logged in to the server (Unauthorized)",
            true,
        );
        check(
            "Error from server (Expired): The resourceVersion is too old",
            "Kubernetes: The resourceVersion is too old",
            true,
        );
        check(
            "E1123 13:59:49.553953   24432 memcache.go:265] \"Unhandled Error\" err=\"…\"\n\
             The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?",
            "Kubernetes: The connection to the server 127.0.0.1:1 was refused",
            true,
        );
        check(
            "Unable to connect to the server: EOF",
            "Kubernetes: Unable to connect to the server: EOF",
            true,
        );
        check("", "Kubernetes: ", true);
    }
}
