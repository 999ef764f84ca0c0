//! Commands of axolotl and LLaMA-Factory: the file of settings that they name, with the values that follow it.

use std::path::Path;

use serde_json::{Map, Value};

use super::Files;
use super::command_line::{CommandLine, arguments, check_variables};
use super::other_tools::is_settings;
use crate::draft::Draft;
use crate::shell_variables::assignment;
use crate::values::parse;
use crate::{Refused, Source};

/// A command that trains by settings.
pub(super) struct Command<'a> {
    pub source: Source,
    /// The programs before the tool's own, and the tool's settings as arguments.
    pub line: CommandLine<'a>,
    /// Options of the launcher that the tool calls.
    pub launched: Map<String, Value>,
}

/// Whether words give settings to one of these tools.
pub(super) fn runs(words: &[String]) -> bool {
    let is_setting = |word: &String| is_settings(word) || word.starts_with("--");
    tool(words).is_some_and(|(_, _, first)| words[first..].iter().any(is_setting))
}

/// Reads the command of a tool whose file can be read.
pub(super) fn read<'a>(words: &'a [String], files: Files) -> Result<Option<Command<'a>>, Refused> {
    let Some((at, source, first)) = tool(words) else { return Ok(None) };
    let given = &words[first..];
    let file = given.iter().position(|word| is_settings(word));
    let mut settings = match file.map(|place| files(Path::new(&given[place]))) {
        Some(Some(text)) => match serde_saphyr::from_str(&text) {
            Ok(Value::Object(settings)) => settings,
            _ => return Ok(None),
        },
        Some(None) => return Ok(None),
        // LLaMA-Factory takes all settings as options, too.
        None if given.iter().any(|word| word.starts_with("--")) => Map::new(),
        None => return Ok(None),
    };
    check_variables(words)?;
    let others = || given.iter().enumerate().filter(|(place, _)| Some(*place) != file);
    let (pairs, options): (Vec<_>, Vec<_>) = others()
        .map(|(_, word)| word.clone())
        .take_while(|word| word != "--")
        .partition(|word| assignment(word).is_some());
    let mut options = arguments(&options);
    // What starts the processes is of the command, and not of the file.
    options.remove("launcher");
    settings.extend(options);
    let pairs = pairs.iter().filter_map(|word| assignment(word));
    settings.extend(pairs.map(|(name, value)| (name.to_owned(), parse(value))));
    let line = CommandLine { launcher: &words[..at], script: &words[at], arguments: settings };
    let ends = given.iter().position(|word| word == "--").map_or(given.len(), |place| place + 1);
    Ok(Some(Command { source, line, launched: arguments(&given[ends..]) }))
}

/// The place of the tool's name, the tool, and the place of the first word for it.
fn tool(words: &[String]) -> Option<(usize, Source, usize)> {
    words.iter().enumerate().find_map(|(at, word)| {
        let trains = words.get(at + 1).is_some_and(|next| next == "train");
        match word.rsplit('/').next()? {
            "axolotl" if trains => Some((at, Source::Axolotl, at + 2)),
            "axolotl.cli.train" => Some((at, Source::Axolotl, at + 1)),
            // The scripts of LLaMA-Factory before it had commands.
            "train_bash.py" => Some((at, Source::LlamaFactory, at + 1)),
            "train.py" if words.iter().any(|word| word.starts_with("--finetuning_type")) => {
                Some((at, Source::LlamaFactory, at + 1))
            }
            "llamafactory-cli" | "lmf" if trains => Some((at, Source::LlamaFactory, at + 2)),
            _ => None,
        }
    })
}

impl Command<'_> {
    /// Sets the processes on each host and the hosts that the tool starts by itself: LLaMA-Factory as variables
    /// before it say, axolotl as options say that follow its own.
    pub(super) fn set_started(&self, draft: &mut Draft) {
        for (name, value) in self.line.launcher.iter().filter_map(|word| assignment(word)) {
            match name {
                "NPROC_PER_NODE" => draft.set("resources.cores", parse(value), name),
                "NNODES" => draft.set("resources.hosts", parse(value), name),
                _ => {}
            }
        }
        for (name, value) in &self.launched {
            match name.as_str() {
                "nproc_per_node" | "num_processes" => {
                    draft.set("resources.cores", value.clone(), name);
                }
                "nnodes" | "num_machines" => draft.set("resources.hosts", value.clone(), name),
                _ => draft.note(name, "dropped: the daemon starts a job's processes"),
            }
        }
    }
}
