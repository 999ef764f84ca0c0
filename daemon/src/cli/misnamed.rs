//! Commands by the names that other tools have for them.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Names, with the sentence on what to call instead.
const NAMES: &[(&[&str], &str)] = &[
    (
        &["train", "run", "start", "launch-job", "fit", "create-job"],
        "`traind submit JOB.yaml --watch` submits a job, and `traind init MODEL DATA` writes its file",
    ),
    (
        &["show", "describe", "status", "info", "inspect"],
        "`traind get JOB` shows a job, and `traind ls` lists them",
    ),
    (&["list", "jobs", "ps", "queue", "squeue", "qstat"], "`traind ls` lists jobs"),
    (&["stop", "kill", "abort", "scancel", "qdel"], "`traind cancel JOB` stops a job"),
    (&["rm", "remove", "delete", "prune", "clean"], "`traind gc` removes old jobs that have ended"),
    (
        &["resume", "restart", "retry", "continue"],
        "train.resume_from_checkpoint in a job file continues a run, and `traind fork JOB` continues from a job's \
         checkpoint with other settings",
    ),
    (
        &["evaluate", "eval", "test", "predict", "prediction", "inference", "infer", "classify"],
        "a job with train.do_train: false evaluates a model on data.validation, and with train.do_predict: true writes \
         predictions for data.test",
    ),
    (&["chat", "complete", "ask"], "`traind generate MODEL PROMPT --chat` answers a message"),
    (&["encode", "vectors"], "`traind embed MODEL FILE` writes the vectors of texts"),
    (
        &["metrics", "history", "results"],
        "`traind get JOB` shows a job's metrics, and `traind logs JOB` all that it logged",
    ),
    (&["tail", "log", "events", "follow"], "`traind logs -f JOB` prints events as they happen"),
    (
        &["monitor", "dashboard", "nvidia-smi", "neuron-top"],
        "`traind top` shows cores and jobs live",
    ),
    (&["nodes", "devices", "gpus", "hosts"], "`traind cores` shows the cores of this host"),
    (
        &["validate", "check", "lint", "estimate", "estimate-memory"],
        "`traind plan JOB.yaml` checks a job file and shows what the job takes",
    ),
    (
        &["download", "export", "save", "push", "upload"],
        "the output_dir of a job is the model folder; train.push_to_hub: true commits it to the hub",
    ),
    (&["new", "create", "template"], "`traind init MODEL DATA` writes a job file"),
    (&["merge"], "peft.merge: true writes a whole model in place of adapters"),
    (&["version"], "`traind --version` prints the version"),
    (&["login"], "HF_TOKEN in the daemon's environment is the token for the hub"),
];

/// Adds to the error about an unknown command what to call instead, in place of commands of a similar spelling.
pub(super) fn with_tip(error: Error) -> Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let replaced = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) => tip(name).map(|tip| unknown(name, tip)),
        _ => None,
    };
    replaced.unwrap_or(error)
}

fn tip(name: &str) -> Option<&'static str> {
    let named = |(names, _): &&(&[&str], &str)| names.contains(&name);
    NAMES.iter().find(named).map(|(_, tip)| *tip)
}

fn unknown(name: &str, tip: &str) -> Error {
    let message = format!(
        "unrecognized subcommand '{name}'\n\n  tip: {tip}\n\nFor more information, try '--help'.\n"
    );
    Error::raw(ErrorKind::InvalidSubcommand, message)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn tips_name_commands_that_there_are_and_are_for_names_that_are_none() {
        let commands: Vec<String> =
            Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
        for (names, tip) in NAMES {
            for called in tip.split("`traind ").skip(1) {
                let name = called.split([' ', '`']).next().unwrap();
                assert!(name == "--version" || commands.iter().any(|known| known == name), "{tip}");
            }
            for name in *names {
                assert!(commands.iter().all(|known| known != name), "{name}");
            }
        }
    }

    /// `traind train` was told to drain the daemon.
    #[test]
    fn the_tip_of_another_tools_name_is_the_only_one() {
        let error = |name: &str| match Cli::try_parse_from(["traind", name, "x"]) {
            Err(error) => with_tip(error).to_string(),
            Ok(_) => panic!("{name} is a command"),
        };
        let text = error("train");
        assert!(text.starts_with("error: unrecognized subcommand 'train'"), "{text}");
        assert!(text.contains("traind submit JOB.yaml") && !text.contains("drain"), "{text}");
        assert!(error("sumbit").contains("'submit'"), "{}", error("sumbit"));
    }
}
