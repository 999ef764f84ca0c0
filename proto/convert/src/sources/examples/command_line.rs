//! A command line: the launcher with its processes, the script, its arguments.

use serde_json::{Map, Value};

use crate::Refused;
use crate::values::parse;

/// A script that is run, and with what.
#[derive(Debug)]
pub(super) struct CommandLine {
    /// Path of the script.
    pub script: String,
    /// Hosts that the launcher starts processes on.
    pub hosts: u32,
    /// Processes that the launcher starts on each host.
    pub processes: Option<u32>,
    /// Arguments in their order.
    pub arguments: Map<String, Value>,
}

/// Options of launchers that say how many processes there are on a host.
const PROCESSES: [&str; 2] = ["nproc_per_node", "num_cores"];
/// Option of `accelerate launch` that says how many processes there are on all hosts.
const ALL_PROCESSES: &str = "num_processes";
/// Options of launchers that say how many hosts there are.
const HOSTS: [&str; 2] = ["nnodes", "num_machines"];

pub(super) fn read(words: &[String]) -> Result<CommandLine, Refused> {
    if let Some(word) = words.iter().find(|word| word.contains('$')) {
        let text = format!("`{word}` has a variable of the shell; write its value");
        return Err(Refused::because("", text));
    }
    let is_script = |word: &String| word.ends_with(".py") && !word.ends_with("xla_spawn.py");
    let Some(at) = words.iter().position(is_script) else {
        return Err(Refused::because(
            "",
            "the command line runs no example script such as run_glue.py",
        ));
    };
    let launcher = pairs(&words[..at]);
    let hosts = match number(&launcher, &HOSTS)? {
        Some((_, hosts)) => hosts,
        None => 1,
    };
    let processes = match (number(&launcher, &PROCESSES)?, number(&launcher, &[ALL_PROCESSES])?) {
        (Some((_, processes)), _) => Some(processes),
        (None, Some((key, all))) if all % hosts != 0 => {
            let text = format!("{all} processes cannot be divided among {hosts} hosts");
            return Err(Refused::because(key, text));
        }
        (None, all) => all.map(|(_, all)| all / hosts),
    };
    Ok(CommandLine {
        script: words[at].clone(),
        hosts,
        processes,
        arguments: pairs(&words[at + 1..]),
    })
}

/// The first of some options that the launcher has, with its value.
fn number<'a>(
    launcher: &Map<String, Value>,
    options: &[&'a str],
) -> Result<Option<(&'a str, u32)>, Refused> {
    let given = options.iter().find_map(|option| Some((*option, launcher.get(*option)?)));
    let Some((option, value)) = given else { return Ok(None) };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    match number.filter(|number| *number > 0) {
        Some(number) => Ok(Some((option, number))),
        None => Err(Refused::because(option, "must be a number from 1 up")),
    }
}

/// `--name value`, `--name=value`, `--name` and `--name a b`.
fn pairs(words: &[String]) -> Map<String, Value> {
    let mut found: Map<String, Value> = Map::new();
    let mut open: Option<(String, Vec<Value>)> = None;
    for word in words {
        let name =
            word.strip_prefix("--").or_else(|| word.strip_prefix('-').filter(|_| is_name(word)));
        match name {
            None => {
                if let Some((_, values)) = &mut open {
                    values.push(parse(word));
                }
            }
            Some(name) => {
                found.extend(open.take().map(close));
                let (name, value) =
                    name.split_once('=').map_or((name, None), |(n, v)| (n, Some(parse(v))));
                open = Some((name.replace('-', "_"), value.into_iter().collect()));
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
