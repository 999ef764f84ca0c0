//! Command lines of transformers' example scripts for PyTorch.

mod arguments;
mod command_line;
mod config_file;
mod environment;
mod glue;
mod images;
mod launcher;
mod launcher_options;
mod limits;
mod other_tools;
mod script;
mod seq2seq;
mod tool_files;
mod trl;

use serde_json::{Map, Value, json};

use crate::application::apply;
use crate::draft::Draft;
use crate::rule::{Rule, Table};
use crate::shared::TABLES;
use crate::sources::{self, deepspeed, hub};
use crate::values::shown;
use crate::{Refused, Source};

use command_line::CommandLine;
use launcher::Launch;

use arguments::Arguments;
pub(crate) use arguments::{DATA, MODEL, of_task, script_of};

/// Returns the text of a file, if it can be read.
pub(crate) type Files<'a> = &'a dyn Fn(&std::path::Path) -> Option<String>;

/// An example script.
#[derive(Clone, Copy)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    /// Task, by its name in the job file.
    pub(crate) task: &'static str,
    /// Why it cannot be converted.
    pub(crate) unsupported: Option<&'static str>,
}

pub(crate) const LAUNCHED: &str = "set resources.engine to slurm or kubernetes, or start traind-runner on each \
    host as docs/hosts.md describes";
/// The script that makes one text of several columns; others read two as a pair.
const JOINING: &str = "run_classification";

const FLAGS: Table = &[
    ("do_train", Rule::Own),
    ("do_eval", Rule::Own),
    ("do_predict", Rule::Own),
    ("config_file", Rule::Own),
];

/// Reads a command line; returns the script's name.
pub(crate) fn read(
    words: &[String],
    files: Files,
    draft: &mut Draft,
) -> Result<&'static str, Refused> {
    if !command_line::runs_example(words)
        && let Some(command) = trl::read(words, files)?
    {
        return of_trl(command, files, draft);
    }
    if !command_line::runs_example(words)
        && let Some(command) = tool_files::read(words, files)?
    {
        return of_tool(command, files, draft);
    }
    let mut line = command_line::read(words, files)?;
    let Some(script) = script_of(line.script) else {
        if let Some(name) = line.script.strip_suffix("_no_trainer.py") {
            let text = format!(
                "{} has arguments of its own; give those of {name}.py, which trains the same by the Trainer",
                line.script
            );
            return Err(Refused::because("", text));
        }
        let text = format!(
            "{} is not a known example script ({}); for a script of your own, begin a job file \
            with `traind init MODEL DATA`",
            line.script,
            arguments::supported()
        );
        return Err(Refused::because("", text));
    };
    if let Some(sentence) = script.unsupported {
        return Err(Refused::because(script.name, sentence));
    }
    draft.imply("model.task", script.task);
    launch(&line, files, draft)?;
    deepspeed::resolve(&mut line.arguments, false, files, draft);
    for (key, value) in &line.arguments {
        apply(&[FLAGS, of_task(script.task), &MODEL, &DATA], key, value, draft);
    }
    // Arguments of the script come before the environment.
    environment::read(line.launcher, draft);
    environment::launchers(line.launcher, draft);
    phases(&Arguments(&line.arguments), draft);
    note_resumption(&Arguments(&line.arguments), draft);
    script.read_together(&line.arguments, draft);
    Ok(script.name)
}

/// Reads a command line of TRL.
fn of_trl(
    command: trl::Command<'_>,
    files: Files,
    draft: &mut Draft,
) -> Result<&'static str, Refused> {
    let trl::Command { mut line, script } = command;
    launch(&line, files, draft)?;
    deepspeed::resolve(&mut line.arguments, false, files, draft);
    crate::sources::trl::read(Some(script), &line.arguments, draft);
    environment::read(line.launcher, draft);
    environment::launchers(line.launcher, draft);
    Ok(script.title)
}

/// Reads the command of a tool with a file of settings.
fn of_tool(
    command: tool_files::Command<'_>,
    files: Files,
    draft: &mut Draft,
) -> Result<&'static str, Refused> {
    command.set_started(draft);
    let tool_files::Command { mut line, source, .. } = command;
    launch(&line, files, draft)?;
    sources::read(source, &mut line.arguments, files, draft)?;
    environment::read(line.launcher, draft);
    environment::launchers(line.launcher, draft);
    Ok(match source {
        Source::Axolotl => "axolotl",
        _ => "LLaMA-Factory",
    })
}

/// Reads the one command of a shell script that trains; returns its script's name.
pub(crate) fn read_script(
    text: &str,
    files: Files,
    draft: &mut Draft,
) -> Result<&'static str, Refused> {
    let words = script::training_command(text, draft)?;
    read(&words, files, draft)
}

/// Reads the launcher.
fn launch(line: &CommandLine<'_>, files: Files, draft: &mut Draft) -> Result<(), Refused> {
    let Launch { hosts, processes } = launcher::read(line.launcher, &line.arguments, files, draft)?;
    if let Some(processes) = processes {
        draft.set("resources.cores", processes.into(), "processes of the launcher");
    }
    if hosts > 1 {
        draft.set("resources.hosts", hosts.into(), "hosts of the launcher");
        if draft.get("resources.engine").is_none() {
            draft.note("resources.hosts", LAUNCHED);
        }
    }
    Ok(())
}

/// Reads the arguments of another script that name data and columns, as the examples mean them.
pub(crate) fn read_other(arguments: &Map<String, Value>, draft: &mut Draft) {
    let arguments = Arguments(arguments);
    let task = draft.get("model.task").map(shown).unwrap_or_default();
    tokenizer(&arguments, draft);
    let is_classifier = matches!(task.as_str(), "" | "sequence-classification");
    if let Some(name) = arguments.text("task_name").filter(|_| is_classifier) {
        glue::read(&name, &arguments, draft);
    } else if arguments.is_on("task_name")
        && task != "token-classification"
        && arguments.text("dataset_name").is_none()
    {
        draft.refuse(
            "task_name",
            "names data of a script that is not known; give data.train and its columns by --set, and leave it out",
        );
    }
    if let Some(name) = arguments.text("dataset_name") {
        data_set(&name, &arguments, draft);
    }
    split(&task, &arguments, draft);
    given_columns("", &task, &arguments, draft);
    if task == "seq2seq-lm" {
        seq2seq::read_given(&arguments, draft);
    }
    limits::read(&task, &arguments, draft);
}

impl Script {
    /// Reads the arguments whose meaning depends on each other: tokenizer, data and columns.
    pub(crate) fn read_together(&self, arguments: &Map<String, Value>, draft: &mut Draft) {
        let arguments = Arguments(arguments);
        tokenizer(&arguments, draft);
        data(self, &arguments, draft);
        match self.task {
            "seq2seq-lm" => seq2seq::read(self.name, &arguments, draft),
            "image-classification" => images::read(&arguments, draft),
            task => columns(self.name, task, &arguments, draft),
        }
        limits::read(self.task, &arguments, draft);
        for (path, value) in &TABLES.scripts[self.name].defaults {
            draft.imply(path, value.clone());
        }
    }

    /// Reads the phases as SageMaker's jobs have them: without one, the job trains all the same.
    pub(crate) fn read_phases(&self, arguments: &Map<String, Value>, draft: &mut Draft) {
        let arguments = Arguments(arguments);
        let phases = ["do_train", "do_eval", "do_predict"];
        if !phases.iter().any(|phase| arguments.is_on(phase)) {
            let text = format!("true: {} would neither train nor evaluate without it", self.name);
            draft.note("do_train", text);
        } else if !arguments.is_on("do_train") {
            draft.imply("train.do_train", false);
        }
        if !arguments.evaluates() && draft.get("data.validation").is_some() {
            draft.imply("train.do_eval", false);
        }
    }
}

/// The scripts do nothing that they are not asked for.
fn phases(arguments: &Arguments, draft: &mut Draft) {
    if !arguments.is_on("do_train") {
        draft.set("train.do_train", false.into(), "do_train");
    }
    if !arguments.evaluates() {
        draft.set("train.do_eval", false.into(), "do_eval");
    }
    if arguments.is_on("do_predict") {
        draft.set("train.do_predict", true.into(), "do_predict");
    }
}

fn note_resumption(arguments: &Arguments, draft: &mut Draft) {
    let key = "resume_from_checkpoint";
    if arguments.is_on(key) {
        draft.note(
            key,
            "checkpoints of traind alone are resumed from; to begin with the weights of one of the \
            Trainer, name its folder in model.name_or_path",
        );
    }
}

/// The advice for scripts that make a model, as they are given none.
const FROM_CONFIG: &str = "give a folder with config.json and the tokenizer as model.name_or_path, and \
    model.from_config: true to begin with random weights";

/// Keys of the model, in scripts and in notebooks.
const MODELS: [&str; 3] = ["model_name_or_path", "model_name", "model_id"];

/// Reads the tokenizer's name, and the type of a model that `config.json` states.
fn tokenizer(arguments: &Arguments, draft: &mut Draft) {
    match arguments.is_on("model_type") {
        true if MODELS.iter().any(|key| arguments.is_on(key)) => {
            draft.note("model_type", "dropped: the model's config.json says it");
        }
        true => draft.refuse("model_type", FROM_CONFIG),
        false => {}
    }
    let name = arguments.text("tokenizer_name");
    if name.is_some() && name != arguments.text("model_name_or_path") {
        draft.refuse(
            "tokenizer_name",
            "the tokenizer is the model's; put its files into the model folder, and leave the argument out",
        );
    }
}

fn data(script: &Script, arguments: &Arguments, draft: &mut Draft) {
    if let Some(task) = arguments.text("task_name").filter(|_| script.name == "run_glue") {
        glue::read(&task, arguments, draft);
    } else if let Some(name) = arguments.text("dataset_name") {
        data_set(&name, arguments, draft);
    } else if script.task != "token-classification" && arguments.is_on("task_name") {
        let (name, task) = (script.name, arguments.text("task_name").unwrap_or_default());
        let advice = format!(
            "{name} has no such argument, and does not read the data of {task}; leave it out"
        );
        draft.refuse("task_name", advice);
    }
    split(script.task, arguments, draft);
}

fn data_set(name: &str, arguments: &Arguments, draft: &mut Draft) {
    match hub::data_set(name) {
        Err(problem) if draft.get("data.train").is_none() => {
            draft.refuse("dataset_name", problem.to_string())
        }
        Err(_) => {}
        Ok(id) => {
            let of_split = |key: &str| match arguments.text(key) {
                Some(split) => (json!([{"path": id, "split": split}]), key.to_owned()),
                None => (id.as_str().into(), "dataset_name".to_owned()),
            };
            let splits = [
                ("data.train", "train_split_name", true),
                ("data.validation", "validation_split_name", arguments.evaluates()),
                ("data.test", "test_split_name", arguments.is_on("do_predict")),
            ];
            for (path, key, _) in splits.into_iter().filter(|(_, _, is_read)| *is_read) {
                let (files, key) = of_split(key);
                draft.set(path, files, &key);
            }
        }
    }
}

/// Scripts of language models keep the first rows aside, 5 % of them, where there is no file to
/// evaluate on.
fn split(task: &str, arguments: &Arguments, draft: &mut Draft) {
    let is_language_model = matches!(task, "masked-lm" | "causal-lm");
    let has_rows = draft.get("data.validation").is_some();
    if !is_language_model || has_rows || !arguments.evaluates() {
        return;
    }
    let key = "validation_split_percentage";
    let percentage = arguments.number(key).unwrap_or(5.0);
    draft.note(key, "a share of rows that are drawn, where the script takes the first");
    draft.set("data.validation_split", (percentage / 100.0).into(), key);
}

/// The columns that scripts look for, by their own names and defaults.
fn columns(script: &str, task: &str, arguments: &Arguments, draft: &mut Draft) {
    given_columns(script, task, arguments, draft);
    if task == "token-classification" {
        let tags = format!("{}_tags", arguments.text("task_name").unwrap_or("ner".to_owned()));
        draft.imply("data.tokens", "tokens");
        draft.imply("data.labels", tags);
    } else if draft.get("data.text").is_none() {
        note_text_column(draft);
    }
}

/// The columns that arguments name; `script` is empty for scripts of users.
fn given_columns(script: &str, task: &str, arguments: &Arguments, draft: &mut Draft) {
    let is_of_tokens = task == "token-classification";
    if let Some(label) = arguments.text("label_column_name") {
        let path = if is_of_tokens { "data.labels" } else { "data.label" };
        draft.set(path, label.into(), "label_column_name");
    }
    let keys = ["text_column_name", "text_column_names"];
    let Some((key, names)) = keys.iter().find_map(|key| Some((key, arguments.text(key)?))) else {
        return;
    };
    if is_of_tokens {
        draft.set("data.tokens", names.into(), key);
    } else if script == JOINING && names.contains(',') {
        let advice =
            "joins the texts of the columns; join them in a column of the file, and name that one";
        draft.refuse(key, format!("{script} {advice}"));
    } else {
        text_columns(key, &names, draft);
    }
}

fn text_columns(key: &str, names: &str, draft: &mut Draft) {
    let mut names = names.split(',').map(str::trim);
    for path in ["data.text", "data.text_pair"] {
        if let Some(name) = names.next() {
            draft.set(path, name.into(), key);
        }
    }
    if names.next().is_some() {
        draft.refuse(key, "a row has one text or two; name two columns, or join them in the file");
    }
}

fn note_text_column(draft: &mut Draft) {
    let text = |path: &str| draft.get(path).and_then(Value::as_str);
    let is_classifier = text("model.task") == Some("sequence-classification");
    if is_classifier && text("data.train").is_some_and(hub::is_file) {
        draft.note(
            "data.text",
            "the script looks for sentence1 and sentence2, or takes the first columns; \
            here the column `text` is read unless data.text and data.text_pair name others",
        );
    }
}
