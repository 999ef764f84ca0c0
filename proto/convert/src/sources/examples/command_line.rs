//! A command line: the launcher with its processes, the script, its arguments.

use serde_json::{Map, Value};

use crate::Refused;
use crate::values::parse;

/// A script that is run, and with what.
#[derive(Debug)]
pub(super) struct CommandLine {
    /// Path of the script.
    pub script: String,
    /// Processes that the launcher starts on the host.
    pub processes: Option<u32>,
    /// Arguments in their order.
    pub arguments: Map<String, Value>,
}

/// Options of launchers that say how many processes there are on a host.
const PROCESSES: [&str; 4] = ["nproc_per_node", "num_processes", "num_cores", "nproc-per-node"];

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
    let processes = launcher.iter().find(|(name, _)| PROCESSES.contains(&name.as_str()));
    let processes =
        processes.and_then(|(_, value)| value.as_u64()).and_then(|n| u32::try_from(n).ok());
    let nodes = launcher.get("nnodes").or(launcher.get("num_machines")).and_then(Value::as_u64);
    if nodes.is_some_and(|nodes| nodes > 1) {
        return Err(Refused::because("nnodes", "a job runs on the cores of one host"));
    }
    Ok(CommandLine { script: words[at].clone(), processes, arguments: pairs(&words[at + 1..]) })
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
