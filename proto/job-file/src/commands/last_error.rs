//! The error of a command of the runner on its standard error, where plugins and compilers write, too.

/// The lines that a command writes last: those behind the first one are indented.
pub fn error_lines(message: &str) -> String {
    message.trim_end().replace('\n', "\n  ")
}

/// The message at the end of what a command wrote: its last line that is not indented, and those behind it.
pub fn last_error(said: &str) -> Option<String> {
    let lines: Vec<&str> = said.trim_end().lines().collect();
    let is_first = |line: &&str| !line.is_empty() && !line.starts_with(char::is_whitespace);
    let first = lines.iter().rposition(is_first)?;
    let of_message = lines[first..].iter().map(|line| line.strip_prefix("  ").unwrap_or(line));
    Some(of_message.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_found_behind_what_others_wrote() {
        for message in ["one", "code: meaning; remedy\nINTERNAL: a\n\n  [ERROR] b", "a\n\tb"] {
            for before in ["", "..\n", "  .\nWARNING: x\n  of y\n\n"] {
                let said = format!("{before}{}\n", error_lines(message));
                assert_eq!(last_error(&said).as_deref(), Some(message), "{said:?}");
            }
        }
        assert_eq!(error_lines("a\n"), "a");
        for nothing in ["", "\n\n", "  \n"] {
            assert_eq!(last_error(nothing), None);
        }
    }
}
