//! The simple commands of a shell script: words, without redirections. Variables and substitutions
//! stay as they are written.

use std::borrow::Cow;

/// Words of a command with the line that it begins on, counted from 1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Command {
    pub line: usize,
    pub words: Vec<String>,
}

/// Between the elements of an array, which is one word: `NAME=(`, its elements and `)`.
pub(crate) const SEPARATOR: char = '\u{1f}';

/// Splits a script at line ends and at `;`, `&`, `|`, `&&`, `||` and parentheses. Lines of a comment
/// are skipped, also between the lines of one command.
pub(crate) fn commands(script: &str) -> Vec<Command> {
    let mut splitter = Splitter { line: 1, ..Splitter::default() };
    let script = without_comment_lines(&of_windows(script));
    let mut characters = script.chars().peekable();
    while let Some(c) = characters.next() {
        let next = characters.peek().copied();
        let takes_next = splitter.read(c, next);
        if takes_next {
            characters.next();
        }
    }
    splitter.end_command();
    splitter.commands
}

/// The script with the continued lines of `sh` in place of those of PowerShell and `cmd`, whose paths have backslashes.
fn of_windows(script: &str) -> Cow<'_, str> {
    let continued = |line: &str| {
        let kept = line.trim_end().strip_suffix(['`', '^'])?;
        let is_one = kept.ends_with(char::is_whitespace) && !kept.contains('`');
        is_one.then_some(kept.len())
    };
    if !script.lines().any(|line| continued(line).is_some()) {
        return script.into();
    }
    let line = |line: &str| match continued(line) {
        Some(end) => line[..end].replace('\\', "\\\\") + "\\\n",
        None => line.replace('\\', "\\\\") + "\n",
    };
    script.lines().map(line).collect()
}

/// The script with `\n` at line ends. A line of a comment becomes a continued one, as the line before
/// it may be continued, or an empty one.
fn without_comment_lines(script: &str) -> String {
    let mut kept = String::new();
    for line in script.lines() {
        match line.trim_start().starts_with('#') {
            true if kept.ends_with("\\\n") => kept.push_str("\\\n"),
            true => kept.push('\n'),
            // A terminal's prompt.
            false => kept.extend([line.strip_prefix("$ ").unwrap_or(line), "\n"]),
        }
    }
    kept
}

#[derive(Default)]
struct Splitter {
    commands: Vec<Command>,
    command: Command,
    word: Option<String>,
    quote: Option<char>,
    /// Open parentheses of substitutions such as `$(date)`.
    substitutions: u32,
    /// Whether the next word is the file of a redirection.
    is_file_next: bool,
    is_comment: bool,
    /// The beginning `NAME=` of an open array, and the words before it.
    array: Option<(String, Vec<String>)>,
    line: usize,
}

impl Splitter {
    /// Reads a character; returns true if it takes the next one too.
    fn read(&mut self, c: char, next: Option<char>) -> bool {
        self.line += usize::from(c == '\n');
        match (self.quote, c) {
            _ if self.is_comment => {
                if c == '\n' {
                    self.is_comment = false;
                    self.end_line();
                }
            }
            (Some(open), c) if c == open => self.quote = None,
            (Some('\''), c) => self.push(c),
            // Within double quotes a backslash stays before any other character, such as in "\t".
            (Some('"'), '\\') if !matches!(next, Some('$' | '`' | '"' | '\\' | '\n')) => {
                self.push(c)
            }
            (_, '\\') => return self.escape(next),
            (Some(_), c) => self.push(c),
            (None, '\'' | '"') => {
                self.quote = Some(c);
                self.open_word();
            }
            (None, c) => return self.read_bare(c, next),
        }
        false
    }

    /// Reads a character outside of quotes.
    fn read_bare(&mut self, c: char, next: Option<char>) -> bool {
        let is_substitution = self.word.as_ref().is_some_and(|word| word.ends_with('$'));
        match c {
            '(' if is_substitution || self.substitutions > 0 => {
                self.substitutions += 1;
                self.push(c);
            }
            ')' if self.substitutions > 0 => {
                self.substitutions -= 1;
                self.push(c);
            }
            c if self.substitutions > 0 => self.push(c),
            '#' if self.word.is_none() => self.is_comment = true,
            '>' | '<' => return self.redirect(next),
            '&' if next == Some('>') => self.end_word(),
            '(' if self.begins_array() => {
                let name = self.word.take().unwrap_or_default();
                self.array = Some((name, std::mem::take(&mut self.command.words)));
            }
            ')' if self.array.is_some() => self.end_array(),
            '\n' => self.end_line(),
            ';' | '&' | '|' | '(' | ')' => self.end_command(),
            c if c.is_whitespace() => self.end_word(),
            c => self.push(c),
        }
        false
    }

    /// Whether the word is `NAME=` or `NAME+=`.
    fn begins_array(&self) -> bool {
        let is_name = |word: &String| {
            let name = word.strip_suffix('=').map(|name| name.strip_suffix('+').unwrap_or(name));
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            name.is_some_and(|name| !name.is_empty() && name.chars().all(is_of_name))
        };
        self.array.is_none() && self.word.as_ref().is_some_and(is_name)
    }

    fn end_array(&mut self) {
        self.end_word();
        let Some((name, words)) = self.array.take() else { return };
        let elements = std::mem::replace(&mut self.command.words, words);
        let elements = elements.join(&SEPARATOR.to_string());
        self.command.words.push(format!("{name}({elements})"));
    }

    /// Ends the command, but for an array that has elements on several lines.
    fn end_line(&mut self) {
        match self.array {
            Some(_) => self.end_word(),
            None => self.end_command(),
        }
    }

    fn push(&mut self, c: char) {
        self.open_word().push(c);
    }

    /// The word that is being read, which may be the first of its command.
    fn open_word(&mut self) -> &mut String {
        if self.command.words.is_empty() && self.word.is_none() {
            self.command.line = self.line;
        }
        self.word.get_or_insert_default()
    }

    /// Adds an escaped character, or continues the line.
    fn escape(&mut self, next: Option<char>) -> bool {
        match next {
            None => {}
            Some('\n') => self.line += 1,
            Some(escaped) => self.push(escaped),
        }
        true
    }

    /// Reads `>`, `>>`, `>&`, `>|` or `<`, whose descriptor is a number before it.
    fn redirect(&mut self, next: Option<char>) -> bool {
        let is_descriptor = |word: &mut String| word.bytes().all(|byte| byte.is_ascii_digit());
        self.word.take_if(is_descriptor);
        self.end_word();
        self.is_file_next = true;
        matches!(next, Some('>' | '<' | '&' | '|'))
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if std::mem::take(&mut self.is_file_next) {
            return;
        }
        self.command.words.push(word);
    }

    fn end_command(&mut self) {
        self.end_array();
        self.end_word();
        self.is_file_next = false;
        let command = std::mem::take(&mut self.command);
        if !command.words.is_empty() {
            self.commands.push(command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(script: &str, expect: &[(usize, &[&str])]) {
        let found = commands(script);
        let found: Vec<(usize, Vec<&str>)> = found
            .iter()
            .map(|it| (it.line, it.words.iter().map(String::as_str).collect()))
            .collect();
        let expect: Vec<(usize, Vec<&str>)> =
            expect.iter().map(|(line, words)| (*line, words.to_vec())).collect();
        assert_eq!(found, expect, "{script}");
    }

    #[test]
    fn quotes_and_backslashes_make_words() {
        let script = "a 'b c' \"d\\\"e\" \\\n  --f=\"g h\" i\\ j ''";
        check(script, &[(1, &["a", "b c", "d\"e", "--f=g h", "i j", ""])]);
        check("a \"\\t\" '\\t' \"\\\\n\\$x\"", &[(1, &["a", "\\t", "\\t", "\\n$x"])]);
        check("a '#' \"x;y\" b#c '|'\r\n", &[(1, &["a", "#", "x;y", "b#c", "|"])]);
        check("a $(b; c | d) e", &[(1, &["a", "$(b; c | d)", "e"])]);
    }

    #[test]
    fn lines_and_operators_end_commands() {
        check("a 1\n\nb \\\n 2\nc", &[(1, &["a", "1"]), (3, &["b", "2"]), (5, &["c"])]);
        check(
            "a;b&&c||d|e& (f)",
            &[(1, &["a"]), (1, &["b"]), (1, &["c"]), (1, &["d"]), (1, &["e"]), (1, &["f"])],
        );
    }

    #[test]
    fn arrays_are_words() {
        check("A=( b 'c d' # e\n  f\n)\ng", &[(1, &["A=(b\u{1f}c d\u{1f}f)"]), (4, &["g"])]);
        check("A=()\nA+=(b); (c)", &[(1, &["A=()"]), (2, &["A+=(b)"]), (2, &["c"])]);
        check("a=$(b c)\nd", &[(1, &["a=$(b c)"]), (2, &["d"])]);
    }

    #[test]
    fn lines_of_powershell_and_cmd_continue() {
        check(
            "a b `\r\n  --c d\\e.csv `\r\n  --f\r\ng",
            &[(1, &["a", "b", "--c", "d\\e.csv", "--f"]), (4, &["g"])],
        );
        check("a ^\n  --b c:\\d ^\n  --e", &[(1, &["a", "--b", "c:\\d", "--e"])]);
        check("a `b\n` c", &[(1, &["a", "`b"]), (2, &["`", "c"])]);
    }

    #[test]
    fn comments_are_skipped() {
        check("#!/bin/sh\na b # c 'd\ne", &[(2, &["a", "b"]), (3, &["e"])]);
        check("a \\\n  # b 'c \\\n  d", &[(1, &["a", "d"])]);
    }

    #[test]
    fn redirections_are_left_out() {
        for redirection in ["> x", ">>x", "2>&1", "&> x", "2> x", ">| x", "< x", ">& x", "> 'x y'"]
        {
            check(&format!("a 1 {redirection} b"), &[(1, &["a", "1", "b"])]);
        }
        check("a > x 2>&1 &\nb", &[(1, &["a"]), (2, &["b"])]);
        check("a 2>&1 | tee x", &[(1, &["a"]), (1, &["tee", "x"])]);
        check("a1>x", &[(1, &["a1"])]);
    }
}
