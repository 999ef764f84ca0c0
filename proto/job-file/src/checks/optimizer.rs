//! The settings of optimizers, of the job and of its groups of parameters.

use regex::Regex;
use traind_choices::Optim;

use super::{check_options, names, unknown_option};
use crate::problems::{Problems, join};
use crate::schema::optimizers::ParamGroup;
use crate::schema::train::Train;
use crate::values::{OptimArg, OptimArgs};

pub(super) fn check(train: &Train, problems: &mut Problems) {
    check_args("train.optim_args", train.optim, &train.optim_args, problems);
    for (index, group) in train.param_groups.iter().enumerate() {
        check_group(&format!("train.param_groups[{index}]"), group, train, problems);
    }
}

fn check_group(path: &str, group: &ParamGroup, train: &Train, problems: &mut Problems) {
    let is_glob = group.pattern.starts_with('*');
    if !is_glob && let Err(error) = Regex::new(&group.pattern) {
        // The last line has the fault; those before it point to its place.
        let error = error.to_string();
        let fault = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        problems.violation(&join(path, "match"), format!("is not a regular expression: {fault}"));
    }
    if train.learning_rate == 0.0 && group.learning_rate.is_some() {
        let description = "follows train.learning_rate in proportion, which is 0";
        problems.violation(&join(path, "learning_rate"), description);
    }
    let args = join(path, "optim_args");
    match group.optim {
        Some(optim) => check_args(&args, optim, &group.optim_args, problems),
        None if group.optim_args.iter().next().is_some() => {
            problems.violation(&args, "needs the `optim` that it is for");
        }
        None => {}
    }
    let changes = group.optim.is_some() || group.learning_rate.is_some();
    if !changes && group.weight_decay.is_none() {
        problems.violation(path, "changes nothing: give learning_rate, weight_decay or optim");
    }
}

fn check_args(path: &str, optim: Optim, args: &OptimArgs, problems: &mut Problems) {
    let is_other_kind = |name: &str| {
        let words = optim.arg_words().iter().any(|(word, _)| *word == name);
        words || optim.arg_lists().iter().any(|(list, _)| *list == name)
    };
    let numbers = || args.numbers().filter(|(name, _)| !is_other_kind(name));
    check_options(path, optim.as_str(), optim.args(), numbers(), problems);
    for (name, arg) in args.iter() {
        check_arg(&join(path, name), name, optim, arg, problems);
    }
    let is_set = |wanted| args.numbers().any(|(name, value)| name == wanted && value != 0.0);
    if optim == Optim::Sgd && is_set("nesterov") && (!is_set("momentum") || is_set("dampening")) {
        problems.violation(path, "`nesterov` needs a `momentum`, and no `dampening`");
    }
}

/// Checks a setting that is a word or a list, or that should be.
fn check_arg(path: &str, name: &str, optim: Optim, arg: &OptimArg, problems: &mut Problems) {
    let words = optim.arg_words().iter().find(|(word, _)| *word == name);
    let list = optim.arg_lists().iter().find(|(list, _)| *list == name);
    let is_number = optim.args().iter().any(|(number, _)| *number == name);
    match (words, list, arg) {
        (Some((_, known)), _, OptimArg::Word(word)) if known.contains(&word.as_str()) => {}
        (Some((_, [first, second])), ..) => {
            problems.violation(path, format!("must be `{first}` or `{second}`"));
        }
        (_, Some((_, length)), OptimArg::Numbers(numbers)) if numbers.len() == *length => {}
        (_, Some((_, length)), _) => {
            problems.violation(path, format!("must be a list of {length} numbers"));
        }
        // Those are checked with their ranges.
        (None, None, OptimArg::Number(_)) => {}
        (None, None, OptimArg::Word(word)) if is_number => {
            let description = format!("must be a number, true or false, not the text `{word}`");
            problems.violation(path, description);
        }
        (None, None, OptimArg::Numbers(_)) if is_number => {
            problems.violation(path, "must be a number, true or false, not a list");
        }
        (None, None, _) => {
            problems.violation(path, unknown_option(optim.as_str(), &names(optim.args())));
        }
    }
}
