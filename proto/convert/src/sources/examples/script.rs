//! A shell script: the one command of it that trains.

use super::command_line::python_file;
use super::{environment, other_tools, script_of, tool_files, trl};
use crate::Refused;
use crate::draft::Draft;
use crate::shell::{self, Command};
use crate::shell_variables::{self, Expanded, KEYWORDS, Loop, assignment};

/// Returns the words of the command that runs an example script, or else any Python file. Several are
/// refused, since a job trains once.
pub(super) fn training_command(script: &str, draft: &mut Draft) -> Result<Vec<String>, Refused> {
    let Expanded { commands, defaults, loops } = shell_variables::expand(shell::commands(script));
    for (name, value) in defaults {
        let text = format!("the script does not set it: its default {value} is taken");
        draft.note(&name, text);
    }
    let exported = exported(&commands);
    let moves = folder_of(&commands);
    let (mut trains, mut others): (Vec<_>, Vec<_>) = commands.into_iter().partition(trains);
    // The trial run that compiles ahead is a command of its own, before the one that trains.
    if trains.iter().any(|it| !compiles(it)) {
        others.extend(trains.extract_if(.., |it| compiles(it)));
    }
    let mut trains = trains.into_iter();
    match (trains.next(), trains.len()) {
        (Some(command), 0) => {
            let own: Vec<&Loop> = loops.iter().filter(|it| it.is_in(&command.words)).collect();
            if !own.is_empty() {
                return Err(looped(&command, &own));
            }
            others.retain(|it| python_file(&it.words).is_some());
            for other in others {
                draft.note("", format!("left out: line {}, {}", other.line, other.words.join(" ")));
            }
            if let Some((_, folder)) = moves.iter().rfind(|(line, _)| *line <= command.line) {
                let text = format!(
                    "the command runs in {folder}: its relative paths are of that folder, and those of a job file of \
                     the folder that it is in"
                );
                draft.note("cd", text);
            }
            let before = exported.into_iter().filter(|(line, _)| *line <= command.line);
            Ok(before.map(|(_, word)| word).chain(command.words).collect())
        }
        (Some(command), _) => {
            let lines = std::iter::once(command.line).chain(trains.map(|it| it.line));
            Err(several(lines.collect()))
        }
        (None, _) => {
            let of_tool = others.iter().find(|it| other_tools::advice(&it.words).is_some());
            let python = others.iter().find(|it| python_file(&it.words).is_some());
            Ok(of_tool.or(python).map(|it| it.words.clone()).unwrap_or_default())
        }
    }
}

/// The folders that a script changes to, with their lines.
fn folder_of(commands: &[Command]) -> Vec<(usize, String)> {
    let folder = |command: &Command| match command.words.as_slice() {
        [cd, folder] if matches!(cd.trim_start_matches(['%', '!']), "cd" | "pushd") => {
            Some((command.line, folder.clone()))
        }
        _ => None,
    };
    commands.iter().filter_map(folder).collect()
}

/// Variables that a script exports, with their lines. Values that the shell would make are left out,
/// unless the variable changes the job: those are refused, as in any other place.
fn exported(commands: &[Command]) -> Vec<(usize, String)> {
    let words = |command: &Command| {
        let declares = matches!(command.words.as_slice(), [first, second, ..]
            if first == "export" || first == "declare" && second == "-x");
        let words = if declares { command.words[1..].to_vec() } else { Vec::new() };
        words.into_iter().map(|word| (command.line, word)).collect::<Vec<_>>()
    };
    let is_literal = |word: &str| {
        assignment(word).is_some_and(|(name, value)| {
            !value.contains(['$', '`']) || environment::has_effect(name)
        })
    };
    commands.iter().flat_map(words).filter(|(_, word)| is_literal(word)).collect()
}

/// Whether a command compiles ahead, without training.
fn compiles(command: &Command) -> bool {
    command.words.iter().any(|word| word.rsplit('/').next() == Some("neuron_parallel_compile"))
}

/// Whether a command trains by an example script, by one of TRL's, or by a tool with settings that are converted.
fn trains(command: &Command) -> bool {
    trains_example(command) || trl::runs(&command.words) || tool_files::runs(&command.words)
}

/// Whether a command gives options to an example script, which `cat run_glue.py` does not.
fn trains_example(command: &Command) -> bool {
    let Some((at, file)) = python_file(&command.words) else { return false };
    let options = &command.words[at + 1..];
    let is_option = |word: &String| word.starts_with("--") || word.ends_with(".json");
    script_of(file).is_some() && options.iter().any(is_option)
}

/// The refusal of a command in loops: it shows the command of the first run, and how the others follow.
fn looped(command: &Command, loops: &[&Loop]) -> Refused {
    let with_values = loops.iter().map(|of| {
        let values = of.values.join(", ");
        format!("the loop on line {} gives `{}` the values {values}", of.line, of.name)
    });
    let with_values = with_values.collect::<Vec<_>>().join(", and ");
    let first = loops.iter().try_fold(command.words.clone(), |words, of| {
        let value = of.values.first().filter(|value| !value.contains(['$', '`', '*']))?;
        Some(of.run(&words, value))
    });
    let remedy = match first {
        Some(words) => format!(
            "convert the first with `traind convert --output job.yaml -- {}`, and submit the others with its file, as \
             `traind submit job.yaml --set FIELD=VALUE`",
            words
                .iter()
                .skip_while(|word| KEYWORDS.contains(&word.as_str()))
                .map(|word| quoted(word))
                .collect::<Vec<_>>()
                .join(" ")
        ),
        None => "write one of them in the command, and convert it by itself, as `traind convert -- COMMAND`".to_owned(),
    };
    let line = command.line;
    let text = format!(
        "line {line} trains once for each value, and a job file once: {with_values}; {remedy}"
    );
    Refused::because("", text)
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn several(mut lines: Vec<usize>) -> Refused {
    lines.dedup();
    let shown: Vec<String> = lines.iter().map(usize::to_string).collect();
    let text = format!(
        "the script has several training commands, on line {}; convert each by itself, as \
         `traind convert -- COMMAND`",
        shown.join(" and line ")
    );
    Refused::because("", text)
}
