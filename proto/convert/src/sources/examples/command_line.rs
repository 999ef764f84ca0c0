//! A command line: the launcher, the script, its arguments.

use std::path::Path;

use serde_json::{Map, Value};

use super::{Files, other_tools, script_of};
use crate::Refused;
use crate::shared::parse_of;

const NEGATION: &str = "no_";
/// An argument of its own, and no negation.
const NO_CUDA: &str = "no_cuda";

/// A script that is run, and with what.
#[derive(Debug)]
pub(super) struct CommandLine<'a> {
    /// Words before the script: launchers with their options.
    pub launcher: &'a [String],
    /// Path of the script.
    pub script: &'a str,
    /// Arguments in their order.
    pub arguments: Map<String, Value>,
}

/// The Python file that words run, with its place; launchers are none.
pub(super) fn python_file(words: &[String]) -> Option<(usize, &str)> {
    let is_script = |word: &str| word.ends_with(".py") && !word.ends_with("xla_spawn.py");
    words.iter().map(String::as_str).enumerate().find(|(_, word)| is_script(word))
}

/// Whether words run an example script.
pub(super) fn runs_example(words: &[String]) -> bool {
    python_file(words).is_some_and(|(_, file)| script_of(file).is_some())
}

/// Refuses words that a shell would expand.
pub(super) fn check_variables(words: &[String]) -> Result<(), Refused> {
    let is_reference = |word: &str| word.contains(['$', '`']) || is_of_cmd(word);
    match words.iter().find(|word| is_reference(word)) {
        Some(word) => {
            let text = format!("`{word}` has a variable of the shell; write its value");
            Err(Refused::because("", text))
        }
        None => Ok(()),
    }
}

/// Whether a word has a variable as `cmd` writes it: `%NAME%`.
fn is_of_cmd(word: &str) -> bool {
    let name = word.split_once('%').and_then(|(_, rest)| rest.split_once('%'));
    // `%Y%m` is part of a date.
    let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.is_some_and(|(name, _)| name.len() > 1 && name.chars().all(is_of_name))
}

pub(super) fn read<'a>(words: &'a [String], files: Files) -> Result<CommandLine<'a>, Refused> {
    check_variables(words)?;
    if !runs_example(words)
        && let Some(advice) = other_tools::advice(words)
    {
        return Err(Refused::because("", format!("the command line {advice}")));
    }
    let Some((at, script)) = python_file(words) else {
        return Err(Refused::because(
            "",
            "the command line runs no example script such as run_glue.py; for a script of your own, begin a \
            job file with `traind init MODEL DATA`",
        ));
    };
    let launcher = &words[..at];
    let arguments = match &words[at + 1..] {
        [file] if file.ends_with(".json") => of_file(file, files)?,
        [word, ..] if !word.starts_with('-') => {
            let text = format!(
                "`{word}` comes before the first option, where the script takes no argument \
                but a single JSON file; remove it, or put its option in front"
            );
            return Err(Refused::because("", text));
        }
        options => arguments(options),
    };
    Ok(CommandLine { launcher, script, arguments })
}

/// The arguments that a script reads from a JSON file, when that is its only argument.
fn of_file(file: &str, files: Files) -> Result<Map<String, Value>, Refused> {
    let Some(text) = files(Path::new(file)) else {
        let text =
            "the file with the script's arguments cannot be read; give its path from this folder";
        return Err(Refused::because(file, text));
    };
    serde_json::from_str(&text).map_err(|error| {
        Refused::because(file, format!("is not a mapping of arguments to values in JSON: {error}"))
    })
}

/// The arguments of a script. Its parser adds `--no_name` to each argument that is true by default.
pub(super) fn arguments(words: &[String]) -> Map<String, Value> {
    let plain = |(name, value): (String, Value)| match name.strip_prefix(NEGATION) {
        Some(negated) if value == Value::Bool(true) && name != NO_CUDA => {
            (negated.to_owned(), Value::Bool(false))
        }
        _ => (name, value),
    };
    pairs(words).into_iter().map(plain).collect()
}

/// `--name value`, `--name=value`, `--name` and `--name a b`.
pub(super) fn pairs(words: &[String]) -> Map<String, Value> {
    let mut found: Map<String, Value> = Map::new();
    let mut open: Option<(String, Vec<Value>)> = None;
    for word in words {
        let name =
            word.strip_prefix("--").or_else(|| word.strip_prefix('-').filter(|_| is_name(word)));
        match name {
            None => {
                if let Some((name, values)) = &mut open {
                    values.push(parse_of(name, word));
                }
            }
            Some(name) => {
                found.extend(open.take().map(close));
                let (name, word) = name.split_once('=').map_or((name, None), |(n, v)| (n, Some(v)));
                let name = name.replace('-', "_");
                let value = word.map(|word| parse_of(&name, word));
                open = Some((name, value.into_iter().collect()));
            }
        }
    }
    found.extend(open.map(close));
    found
}

/// A dash before a letter; before a digit it is a sign.
fn is_name(word: &str) -> bool {
    word[1..].starts_with(|c: char| c.is_ascii_alphabetic())
}

fn close((name, mut values): (String, Vec<Value>)) -> (String, Value) {
    let value = match values.len() {
        0 => Value::Bool(true),
        1 => values.remove(0),
        _ => Value::Array(values),
    };
    (name, value)
}
