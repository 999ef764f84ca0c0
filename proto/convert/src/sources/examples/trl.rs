//! Command lines of TRL: `trl sft --model_name_or_path …`, and its scripts behind a launcher.

use std::path::Path;

use serde_json::{Map, Value};

use super::Files;
use super::command_line::{CommandLine, arguments, check_variables};
use crate::Refused;
use crate::sources::trl::{Script, script};
use crate::values::shown;

/// The option that names a file of arguments.
const OPTION: &str = "config";

/// A script of TRL's that is converted.
pub(super) struct Command<'a> {
    pub line: CommandLine<'a>,
    pub script: &'static Script,
}

/// Whether words give options to one of these scripts.
pub(super) fn runs(words: &[String]) -> bool {
    found(words).is_some_and(|(at, _)| words[at + 1..].iter().any(|word| word.starts_with("--")))
}

/// The script that words run, with the place of its name.
fn found(words: &[String]) -> Option<(usize, &'static Script)> {
    words.iter().enumerate().find_map(|(at, word)| {
        let name = word.rsplit('/').next()?;
        match name {
            "trl" => Some((at + 1, script(words.get(at + 1)?)?)),
            _ => Some((at, script(name.strip_suffix(".py")?)?)),
        }
    })
}

/// Reads the command line if it runs one of these scripts.
pub(super) fn read<'a>(words: &'a [String], files: Files) -> Result<Option<Command<'a>>, Refused> {
    let Some((at, script)) = found(words) else { return Ok(None) };
    check_variables(words)?;
    let mut arguments = arguments(&words[at + 1..]);
    add_file(&mut arguments, files)?;
    let of_trl = at - usize::from(words[at] == script.name);
    let line = CommandLine { launcher: &words[..of_trl], script: &words[at], arguments };
    Ok(Some(Command { line, script }))
}

/// Adds the arguments of the file that `--config` names, which the command line's own go before.
fn add_file(arguments: &mut Map<String, Value>, files: Files) -> Result<(), Refused> {
    let Some(name) = arguments.remove(OPTION).map(|name| shown(&name)) else { return Ok(()) };
    let Some(text) = files(Path::new(&name)) else {
        let problem = format!("{name} cannot be read; give its path from this folder");
        return Err(Refused::because(OPTION, problem));
    };
    match serde_saphyr::from_str(&text) {
        Ok(Value::Object(settings)) => {
            for (key, value) in settings {
                arguments.entry(key).or_insert(value);
            }
            Ok(())
        }
        _ => Err(Refused::because(OPTION, format!("{name} is not a mapping of keys to values"))),
    }
}
