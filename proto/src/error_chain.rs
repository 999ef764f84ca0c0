//! Error messages with their causes.

use std::error::Error;

/// Returns the error's message, followed by those of its causes that it does not contain yet.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    append_causes(error.to_string(), error)
}

/// Appends the messages of the error's causes that `text` does not contain yet. Many messages
/// include those of their causes.
pub fn append_causes(text: String, error: &(dyn Error + 'static)) -> String {
    causes(error).map(ToString::to_string).fold(text, |text, cause| {
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

/// Iterates over the causes of an error, the outermost first.
pub fn causes<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[derive(Debug, thiserror::Error)]
    #[error("{message}")]
    struct Outer {
        message: &'static str,
        source: io::Error,
    }

    fn check(message: &'static str, expect: &str) {
        let error = Outer { message, source: io::Error::other("no such file") };
        assert_eq!(error_chain(&error), expect);
    }

    #[test]
    fn causes_are_appended_unless_the_message_contains_them() {
        check("read job.yaml", "read job.yaml: no such file");
        check("read job.yaml: no such file", "read job.yaml: no such file");
    }
}
