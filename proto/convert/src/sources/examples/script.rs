//! A shell script: the one command of it that trains.

use super::command_line::python_file;
use super::script_of;
use crate::Refused;
use crate::draft::Draft;
use crate::shell::{self, Command};

/// Returns the words of the command that runs an example script, or else any Python file. Several are
/// refused, since a job trains once.
pub(super) fn training_command(script: &str, draft: &mut Draft) -> Result<Vec<String>, Refused> {
    let (trains, mut others): (Vec<_>, Vec<_>) =
        shell::commands(script).into_iter().partition(runs_example);
    let mut trains = trains.into_iter();
    match (trains.next(), trains.len()) {
        (Some(command), 0) => {
            others.retain(|it| python_file(&it.words).is_some());
            for other in others {
                draft.note("", format!("left out: line {}, {}", other.line, other.words.join(" ")));
            }
            Ok(command.words)
        }
        (Some(command), _) => {
            let lines = std::iter::once(command.line).chain(trains.map(|it| it.line));
            Err(several(lines.collect()))
        }
        (None, _) => {
            let python = others.into_iter().find(|it| python_file(&it.words).is_some());
            Ok(python.map(|it| it.words).unwrap_or_default())
        }
    }
}

/// Whether a command gives options to an example script, which `cat run_glue.py` does not.
fn runs_example(command: &Command) -> bool {
    let Some((at, file)) = python_file(&command.words) else { return false };
    let options = &command.words[at + 1..];
    script_of(file).is_some() && options.iter().any(|word| word.starts_with("--"))
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
