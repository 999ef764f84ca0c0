//! A failure's message in one line, for lists and for the reasons of restarts.

use std::borrow::Cow;

/// Introduces the last lines of a runner's output in a message.
pub(crate) const LAST_LINES: &str = "; its last lines:";
/// The most characters that are taken of an output's last line.
const CHARS_MAX: usize = 200;

/// Returns the first line of a message. If that introduces the last lines of a runner's output, the last of these that
/// says something is part of it.
pub(crate) fn one_line(message: &str) -> Cow<'_, str> {
    let mut lines = message.lines();
    let first = lines.next().unwrap_or_default();
    let Some(of_runner) = first.strip_suffix(LAST_LINES) else {
        return first.trim_end_matches(':').into();
    };
    match lines.map(str::trim).rfind(|line| says_something(line)) {
        Some(last) => {
            let last: String = last.chars().take(CHARS_MAX).collect();
            format!("{of_runner}; its last line: {last}").into()
        }
        None => of_runner.into(),
    }
}

/// Whether a line is none of a compiler's dots, the advice under a panic, or a plugin's notes ("I0000 00:00:17 a").
fn says_something(line: &str) -> bool {
    let is_note = line.strip_prefix('I').is_some_and(|rest| {
        rest.len() > 4 && rest.bytes().take(4).all(|byte| byte.is_ascii_digit())
    });
    let is_heading = ["note: ", "WARNING: All log messages before absl"];
    let is_heading = is_heading.iter().any(|start| line.starts_with(start));
    line.contains(char::is_alphanumeric) && !is_note && !is_heading
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_the_runner_said_last() {
        for (message, expect) in [
            ("", ""),
            ("the disk is full", "the disk is full"),
            ("rows differ:\n1\n2", "rows differ"),
            (
                "it died; its last lines:\na\n  F01 check failed \n.\n...\n",
                "it died; its last line: F01 check failed",
            ),
            (
                "it died; its last lines:\nthread 'main' panicked\nindex 7\nnote: run with RUST_BACKTRACE=1",
                "it died; its last line: index 7",
            ),
            ("it died; its last lines:\n..\nI0000 00:00:17.2 7 a.cc:59] b\n", "it died"),
        ] {
            assert_eq!(one_line(message), expect);
        }
        let long = format!("it died; its last lines:\n{}", "a".repeat(1000));
        assert!(one_line(&long).len() < 300);
    }
}
