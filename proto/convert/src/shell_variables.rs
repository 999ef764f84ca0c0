//! Variables that a shell script sets to texts, put in the places where it uses them.
//!
//! Only what every run of the script has is put in: a variable that a loop, a branch or a command sets stays as it is
//! written, and so does one that the script does not set, unless a default stands beside it.

use std::collections::HashMap;

use crate::shell::{Command, SEPARATOR};

/// The commands of a script with its variables in their places.
pub(crate) struct Expanded {
    pub commands: Vec<Command>,
    /// Variables that the script does not set, with the defaults that were taken.
    pub defaults: Vec<(String, String)>,
    pub loops: Vec<Loop>,
}

/// A loop `for NAME in VALUES`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    pub line: usize,
    pub name: String,
    /// Ranges such as `{1..3}` and `$(seq 3)` are their numbers; what else the run determines is as it is written.
    pub values: Vec<String>,
}

impl Loop {
    fn of(command: &Command, words: &[String]) -> Option<Loop> {
        let at = words.iter().position(|word| word == "for")?;
        let [_, name, of, values @ ..] = &words[at..] else { return None };
        let values = values.iter().flat_map(|value| numbers(value)).collect();
        (of == "in").then(|| Loop { line: command.line, name: name.clone(), values })
    }

    /// The words with a value in the places of the variable.
    pub(crate) fn run(&self, words: &[String], value: &str) -> Vec<String> {
        let mut one = Variables::default();
        one.values.insert(self.name.clone(), Some(value.to_owned()));
        words.iter().map(|word| one.partly(word)).collect()
    }

    pub(crate) fn is_in(&self, words: &[String]) -> bool {
        self.run(words, "") != words
    }
}

/// The numbers that `{1..3}`, `$(seq 3)` or `$(seq 1 3)` stand for, else the word itself.
fn numbers(word: &str) -> Vec<String> {
    const NUMBERS_MAX: i64 = 1000;
    let of_braces = || {
        let (first, last) = word.strip_prefix('{')?.strip_suffix('}')?.split_once("..")?;
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    let of_command = || {
        let bounds = word.strip_prefix("$(seq ")?.strip_suffix(')')?;
        let bounds: Option<Vec<i64>> =
            bounds.split_whitespace().map(|it| it.parse().ok()).collect();
        match bounds?.as_slice() {
            [last] => Some((1, *last)),
            [first, last] => Some((*first, *last)),
            _ => None,
        }
    };
    match of_braces().or_else(of_command) {
        Some((first, last)) if first <= last && last - first < NUMBERS_MAX => {
            (first..=last).map(|number: i64| number.to_string()).collect()
        }
        _ => vec![word.to_owned()],
    }
}

/// Puts the values of variables in their places.
pub(crate) fn expand(commands: Vec<Command>) -> Expanded {
    let mut variables = Variables::default();
    let mut read = Vec::with_capacity(commands.len());
    for (place, command) in commands.iter().enumerate() {
        variables.enter(&commands[place..]);
        read.push(variables.read(command.clone()));
    }
    let commands = read;
    Expanded { commands, defaults: variables.defaults, loops: variables.loops }
}

/// The name and value of a word such as `XLA_USE_BF16=1`.
pub(crate) fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    is_name(name).then_some((name, value))
}

/// The name and value of a word such as `OPTIONS+=" --fp16"`.
fn addition(word: &str) -> Option<(&str, &str)> {
    word.split_once("+=").filter(|(name, _)| is_name(name))
}

fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(is_of_name)
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a word is one variable and nothing else.
fn is_reference(word: &str) -> bool {
    let Some(name) = word.strip_prefix('$') else { return false };
    match name.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
        Some(inner) => !inner.contains(['$', '{', '}']),
        None => name.chars().all(is_of_name),
    }
}

/// Commands that declare the variables after them.
const DECLARING: [&str; 5] = ["export", "declare", "readonly", "local", "typeset"];
/// Commands that set the variables after them to values of the run.
const SETTING: [&str; 5] = ["read", "unset", "getopts", "mapfile", "for"];

/// Words that begin loops.
const LOOPS: [&str; 4] = ["for", "while", "until", "select"];
/// Words before a command that belong to the loop or branch around it.
pub(crate) const KEYWORDS: [&str; 4] = ["do", "then", "else", "{"];

/// The first word of a command behind those.
fn head(words: &[String]) -> &str {
    let mut own = words.iter().map(String::as_str).skip_while(|word| KEYWORDS.contains(word));
    own.next().unwrap_or_default()
}

#[derive(Default)]
struct Variables {
    /// Values by name; None where they depend on the run.
    values: HashMap<String, Option<String>>,
    /// Open loops, branches and functions.
    depth: usize,
    defaults: Vec<(String, String)>,
    loops: Vec<Loop>,
}

impl Variables {
    /// Forgets what the loop sets that begins with these commands, since its later runs have other values.
    fn enter(&mut self, commands: &[Command]) {
        let begins = |command: &Command| LOOPS.contains(&head(&command.words));
        if !commands.first().is_some_and(begins) {
            return;
        }
        let mut depth = 0;
        for command in commands {
            depth += usize::from(begins(command));
            depth -= usize::from(head(&command.words) == "done");
            if depth == 0 {
                return;
            }
            let own = command.words.iter().skip_while(|word| KEYWORDS.contains(&word.as_str()));
            let set = own.map_while(|word| assignment(word).or_else(|| addition(word)));
            self.values.extend(set.map(|(name, _)| (name.to_owned(), None)));
        }
    }

    fn read(&mut self, command: Command) -> Command {
        let words: Vec<String> =
            command.words.iter().flat_map(|word| self.expanded(word)).collect();
        self.depth += usize::from(words.first().is_some_and(|word| word == "{"));
        match head(&words) {
            "if" | "case" => self.depth += 1,
            word if LOOPS.contains(&word) => self.depth += 1,
            "fi" | "done" | "esac" | "}" => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if head(&words) == "for" {
            self.loops.extend(Loop::of(&command, &words));
        }
        let is_keyword = |word: &&String| KEYWORDS.contains(&word.as_str());
        let mut rest = words.iter().skip_while(is_keyword).peekable();
        let first = rest.peek().map(|word| word.as_str()).unwrap_or_default();
        if SETTING.contains(&first) {
            self.values.extend(rest.skip(1).map(|name| (name.clone(), None)));
        } else {
            let declares = DECLARING.contains(&first);
            let rest: Vec<&String> = rest.filter(|word| !declares || word.contains('=')).collect();
            self.assign(&rest);
        }
        Command { words, ..command }
    }

    /// Sets the variables of a command that does nothing else.
    fn assign(&mut self, words: &[&String]) {
        let found = words.iter().map(|word| assignment(word).or_else(|| addition(word)));
        let Some(found) = found.collect::<Option<Vec<_>>>() else { return };
        for ((name, value), word) in found.into_iter().zip(words) {
            if let Some(added) = value.strip_prefix('(').filter(|_| addition(word).is_some()) {
                let value = self.appended(name, added);
                self.values.insert(name.to_owned(), value);
                continue;
            }
            let is_known = self.depth == 0 && addition(word).is_none() && !value.is_empty();
            let is_text = !value.contains(['$', '`']);
            let value = (is_known && is_text).then(|| value.to_owned());
            self.values.insert(name.to_owned(), value);
        }
    }

    /// An array with further elements, which end with a parenthesis.
    fn appended(&self, name: &str, added: &str) -> Option<String> {
        let known = self.values.get(name)?.as_ref()?.strip_suffix(')')?;
        let is_known = self.depth == 0 && !added.contains(['$', '`']);
        let between = if known == "(" { "" } else { "\u{1f}" };
        is_known.then(|| format!("{known}{between}{added}"))
    }

    /// The elements of the array that a word stands for.
    fn elements(&self, word: &str) -> Option<Vec<String>> {
        let inner = word.strip_prefix("${")?.strip_suffix('}')?;
        let name = inner.strip_suffix("[@]").or_else(|| inner.strip_suffix("[*]"))?;
        let value = self.values.get(name)?.as_ref()?;
        let elements = value.strip_prefix('(')?.strip_suffix(')')?.split(SEPARATOR);
        Some(elements.filter(|element| !element.is_empty()).map(str::to_owned).collect())
    }

    /// A word as the shell would make it; as it is written where that depends on the run. A variable by itself that
    /// holds several options is several words.
    fn expanded(&mut self, word: &str) -> Vec<String> {
        if let Some(elements) = self.elements(word) {
            return elements;
        }
        let Some(found) = self.text(word) else { return vec![word.to_owned()] };
        match is_reference(word) && found.starts_with('-') {
            true => found.split_whitespace().map(str::to_owned).collect(),
            false => vec![found],
        }
    }

    /// A word in which the variables that are known have their values, and others stay as they are written.
    fn partly(&mut self, word: &str) -> String {
        let (mut made, mut rest) = (String::new(), word);
        while let Some(at) = rest.find('$') {
            made.push_str(&rest[..at]);
            let end = match rest[at..].starts_with("${") {
                true => rest[at..].find('}').map_or(rest.len(), |end| at + end + 1),
                false => {
                    rest[at + 1..].find(|c| !is_of_name(c)).map_or(rest.len(), |end| at + 1 + end)
                }
            };
            let reference = &rest[at..end];
            made.push_str(&self.text(reference).unwrap_or_else(|| reference.to_owned()));
            rest = &rest[end..];
        }
        made + rest
    }

    fn text(&mut self, word: &str) -> Option<String> {
        if word.contains('`') {
            return None;
        }
        let (mut made, mut rest) = (String::new(), word);
        while let Some((before, after)) = rest.split_once('$') {
            made.push_str(before);
            let value;
            (value, rest) = match after.strip_prefix('{') {
                Some(braced) => {
                    let (inner, rest) = braced.split_once('}')?;
                    (self.value_of(inner)?, rest)
                }
                None => {
                    let end = after.find(|c| !is_of_name(c)).unwrap_or(after.len());
                    (self.value_of(&after[..end])?, &after[end..])
                }
            };
            made.push_str(&value);
        }
        made.push_str(rest);
        Some(made)
    }

    /// The value of `NAME`, or of `NAME:-DEFAULT`.
    fn value_of(&mut self, reference: &str) -> Option<String> {
        let end = reference.find(|c| !is_of_name(c)).unwrap_or(reference.len());
        let (name, operator) = reference.split_at(end);
        let default = [":-", ":=", "-", "="].iter().find_map(|it| operator.strip_prefix(it));
        if name.is_empty() || !operator.is_empty() && default.is_none() {
            return None;
        }
        match (self.values.get(name), default) {
            // An array by its name alone is its first element.
            (Some(known), _) => known.clone().filter(|value| !value.starts_with('(')),
            (None, Some(default)) if !default.contains('$') => {
                let taken = (name.to_owned(), default.to_owned());
                if !self.defaults.contains(&taken) {
                    self.defaults.push(taken);
                }
                Some(default.to_owned())
            }
            (None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell;

    /// Checks the words of the script's last command.
    #[track_caller]
    fn check(script: &str, expect: &[&str]) {
        let Expanded { commands, .. } = expand(shell::commands(script));
        assert_eq!(commands.last().unwrap().words, expect, "{script}");
    }

    #[test]
    fn values_that_every_run_has_are_put_in() {
        check("export T=mrpc\na $T --out=/tmp/${T}/x", &["a", "mrpc", "--out=/tmp/mrpc/x"]);
        check("A=1 B=\"b c\"\nX=$A.$B\na $X", &["a", "1.b c"]);
        check("A='--x 1 --y'\na $A '${A}z'", &["a", "--x", "1", "--y", "--x 1 --yz"]);
        check("A=1\nA=2\na $A", &["a", "2"]);
        check("declare -x A=1; readonly B=2\na $A$B", &["a", "12"]);
        check("a ${1:-b/c} ${L-3}", &["a", "b/c", "3"]);
        check("L=${L:-3e-5}\na $L", &["a", "3e-5"]);
        check(
            "B=2\nA=(--x 1\n --y \"$B c\")\nA+=(--z)\na \"${A[@]}\" d",
            &["a", "--x", "1", "--y", "2 c", "--z", "d"],
        );
        check("A=()\nA+=(b)\na ${A[*]}", &["a", "b"]);
    }

    #[test]
    fn what_depends_on_the_run_stays_as_it_is_written() {
        check(
            "a $A ${B} $1 $(date) `date` $((1+2))",
            &["a", "$A", "${B}", "$1", "$(date)", "`date`", "$((1+2))"],
        );
        check("for s in 1 2; do\na $s", &["a", "$s"]);
        check("A=1\nfor s in 1 2; do A=2; done\na $A", &["a", "$A"]);
        check("if x; then\nA=1\nelse\nA=2\nfi\na $A", &["a", "$A"]);
        let Expanded { commands, .. } = expand(shell::commands(
            "A=1\nB=2\nwhile x; do\na $A $B\nfor s in 1; do A=$((A+1)); done\ndone",
        ));
        let found = commands.iter().find(|it| it.words.contains(&"a".to_owned())).unwrap();
        assert_eq!(found.words, ["a", "$A", "2"]);
        check("A=1\nread A\na $A", &["a", "$A"]);
        check("A=1\nA+=2\na $A", &["a", "$A"]);
        check("A=$(date)\na $A", &["a", "$A"]);
        check("A=( $X )\na $A ${A[@]}", &["a", "$A", "${A[@]}"]);
        check("A=(x)\nif y; then\nA+=(z)\nfi\na ${A[@]}", &["a", "${A[@]}"]);
        check("A=1 b\na $A", &["a", "$A"]);
    }

    #[test]
    fn loops_are_known_with_their_values() {
        let check = |script: &str, expect: &[&str]| {
            let Expanded { loops, .. } = expand(shell::commands(script));
            assert_eq!((loops[0].line, loops[0].name.as_str()), (2, "s"), "{script}");
            assert_eq!(loops[0].values, expect, "{script}");
        };
        check("\nfor s in 1 b; do\na $s\ndone", &["1", "b"]);
        check("A=(1 2)\nfor s in \"${A[@]}\" 3; do a $s; done", &["1", "2", "3"]);
        check("\nfor s in {1..3}; do a $s; done", &["1", "2", "3"]);
        check("\nfor s in $(seq 2) $(seq 4 5); do a $s; done", &["1", "2", "4", "5"]);
        check("\nif x; then for s in 1; do for t in 2; do a $s; done; done; fi", &["1"]);
        check("\nfor s in $(ls) {3..1}; do a $s; done", &["$(ls)", "{3..1}"]);
        let of = Loop { line: 1, name: "s".to_owned(), values: Vec::new() };
        let words = ["a", "$s", "b/${s}_$t", "$st"].map(str::to_owned);
        assert_eq!(of.run(&words, "1"), ["a", "1", "b/1_$t", "$st"]);
        assert!(of.is_in(&words) && !of.is_in(&words[3..]));
    }

    #[test]
    fn defaults_that_are_taken_are_said() {
        let Expanded { defaults, .. } = expand(shell::commands("A=1\na ${A:-2} ${B:-3}"));
        assert_eq!(defaults, [("B".to_owned(), "3".to_owned())]);
    }
}
