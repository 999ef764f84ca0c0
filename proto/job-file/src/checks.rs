//! Fields checked against each other.

use std::collections::BTreeSet;

use crate::problems::{BEST_NOT_LOADED, FIELD_UNUSED, Problems};
use crate::schema::JobFile;
use crate::schema::model::Task;
use crate::schema::train::{EvalStrategy, LrSchedulerType, SaveStrategy, Train};
use crate::values::ModelSource;

/// Longest name of a job, in characters.
const NAME_CHARACTERS_MAX: usize = 128;

/// Reports fields that do not fit each other.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    check_name(job, problems);
    check_model(job, problems);
    check_columns(job, problems);
    check_labels(job, problems);
    check_train(job, problems);
    check_best_model(job, problems);
    check_parallel(job, problems);
}

fn check_name(job: &JobFile, problems: &mut Problems) {
    if job.name.chars().count() > NAME_CHARACTERS_MAX {
        let description = format!("must have at most {NAME_CHARACTERS_MAX} characters");
        problems.violation("name", description);
    }
    if job.name.chars().any(char::is_control) {
        problems.violation("name", "must be one line without control characters");
    }
}

fn check_model(job: &JobFile, problems: &mut Problems) {
    let is_folder = matches!(job.model.name_or_path, ModelSource::Folder(_));
    if is_folder && job.model.revision.is_some() {
        problems.violation("model.revision", "applies to a hub id, not to a folder");
    }
}

fn check_columns(job: &JobFile, problems: &mut Problems) {
    let mut columns = BTreeSet::from([&job.data.text]);
    if let Some(text_pair) = &job.data.text_pair
        && !columns.insert(text_pair)
    {
        let description = format!("column `{text_pair}` is `data.text` already");
        problems.violation("data.text_pair", description);
    }
    if columns.contains(&job.data.label) {
        let label = &job.data.label;
        problems.violation("data.label", format!("column `{label}` is a text already"));
    }
}

fn check_labels(job: &JobFile, problems: &mut Problems) {
    let classes = job.data.label_map.as_ref().map(|map| map.classes().len());
    match (job.model.num_labels, classes) {
        (Some(num_labels), Some(classes)) if num_labels as usize != classes => {
            let description = format!("is {num_labels}, but data.label_map has {classes} classes");
            problems.violation("model.num_labels", description);
        }
        (None, None) if job.model.task == Task::SequenceClassification => {
            problems.violation(
                "model.num_labels",
                "is required where there is no data.label_map to count classes in",
            );
        }
        _ => {}
    }
}

fn check_train(job: &JobFile, problems: &mut Problems) {
    let train = &job.train;
    if train.max_steps == 0 {
        problems.violation("train.max_steps", "must be -1 or at least 1, not 0");
    }
    if train.eval_strategy != EvalStrategy::No && job.data.validation.is_none() {
        let strategy = train.eval_strategy;
        let description = format!("is `{strategy}`, but there is no data.validation");
        problems.violation("train.eval_strategy", description);
    }
    if train.bf16 && train.fp16 {
        problems.violation("train.fp16", "cannot be combined with train.bf16");
    }
    if train.lr_scheduler_type == LrSchedulerType::Constant && !train.warmup_steps.is_zero() {
        let description = "has no effect with the scheduler `constant`; \
            `constant_with_warmup` warms up";
        problems.warning(FIELD_UNUSED, "train.warmup_steps", description);
    }
}

/// The rules of TrainingArguments and of transformers' `EarlyStoppingCallback`.
fn check_best_model(job: &JobFile, problems: &mut Problems) {
    let train = &job.train;
    let never_evaluates = train.eval_strategy == EvalStrategy::No;
    if train.load_best_model_at_end && !saves_what_it_evaluates(train) {
        let description = "needs a checkpoint of what is evaluated: eval_strategy and \
            save_strategy must be the same, and save_steps a multiple of eval_steps";
        problems.violation("train.load_best_model_at_end", description);
    }
    if train.save_strategy == SaveStrategy::Best && never_evaluates {
        problems.violation("train.save_strategy", "is `best`, but eval_strategy is `no`");
    }
    if train.early_stopping_patience.is_some() {
        if never_evaluates {
            let description = "counts evaluations, but eval_strategy is `no`";
            problems.violation("train.early_stopping_patience", description);
        } else if !train.load_best_model_at_end {
            let description = "ends training early, and the model is then not the best but the \
                last; load_best_model_at_end takes the best";
            problems.warning(BEST_NOT_LOADED, "train.early_stopping_patience", description);
        }
    }
}

fn saves_what_it_evaluates(train: &Train) -> bool {
    let eval_steps = train.eval_steps.unwrap_or(train.logging_steps);
    match (train.eval_strategy, train.save_strategy) {
        (EvalStrategy::No, _) => false,
        (_, SaveStrategy::Best) | (EvalStrategy::Epoch, SaveStrategy::Epoch) => true,
        (EvalStrategy::Steps, SaveStrategy::Steps) => train.save_steps.is_multiple_of(eval_steps),
        _ => false,
    }
}

fn check_parallel(job: &JobFile, problems: &mut Problems) {
    let cores = job.resources.cores;
    let parallel = &job.parallel;
    let other = u64::from(parallel.tensor) * u64::from(parallel.pipeline);
    match parallel.data {
        Some(data) if u64::from(data) * other != u64::from(cores) => {
            let product = u64::from(data) * other;
            let description =
                format!("data x tensor x pipeline is {product}, but resources.cores is {cores}");
            problems.violation("parallel", description);
        }
        None if u64::from(cores) % other != 0 => {
            let description =
                format!("tensor x pipeline is {other}, which does not divide {cores} cores");
            problems.violation("parallel", description);
        }
        _ => {}
    }
}
