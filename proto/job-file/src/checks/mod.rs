//! Fields checked against each other.

mod csv;
mod dpo;
mod embedding;
mod embedding_sets;
mod host;
mod hub;
mod layout;
mod loss;
mod masking;
mod mesh;
mod notify;
mod optimizer;
mod peft;
mod preferences;
mod replaced_tokens;
mod reranker;
mod stages;
mod task;
mod unread;

use traind_choices::{Fsdp, LrSchedulerType, Optim, Range, Setting};

use crate::problems::{BEST_NOT_LOADED, FIELD_UNUSED, Problems, join};
use crate::schema::JobFile;
use crate::schema::data_files::DataFiles;
use crate::schema::model::{AttnImplementation, TaskName};
use crate::schema::parallel::{LOADING_HORIZON, Parallel};
use crate::schema::resources::Platform;
use crate::schema::train::{EvalStrategy, SaveStrategy, Train};
use crate::values::ModelSource;
use crate::values::hub_name::is_hub_name;

/// The longest name of a job, in characters.
const NAME_CHARACTERS_MAX: usize = 128;

/// Reports fields that do not fit each other.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    check_name(job, problems);
    check_model(job, problems);
    csv::check(job, problems);
    check_splits(job, problems);
    check_train(job, problems);
    check_best_model(job, problems);
    check_parallel(job, problems);
    task::check(job, problems);
    loss::check(job, problems);
    peft::check(job, problems);
    host::check(job, problems);
    hub::check(job, problems);
    layout::check(job, problems);
    notify::check(job, problems);
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
    let revision = job.model.revision.as_deref();
    if revision.is_some_and(|revision| !is_hub_name(revision, usize::MAX)) {
        problems.violation("model.revision", "is not a branch, tag or commit");
    }
    check_new_tokens(job, problems);
}

/// Only tasks of texts have tokens.
fn check_new_tokens(job: &JobFile, problems: &mut Problems) {
    let model = &job.model;
    let key = match model.new_tokens().next() {
        Some((key, _)) => key,
        None if model.pad_vocab_to_multiple_of.is_some() => {
            "model.pad_vocab_to_multiple_of".to_owned()
        }
        None => return,
    };
    if model.task == TaskName::ImageClassification {
        problems.violation(&key, "has no meaning for images, which have no vocabulary");
    }
    if let Some((field, _)) = job.reference_model() {
        let description =
            format!("cannot be combined with {field}, whose vocabulary would be another");
        problems.violation(&key, description);
    }
}

fn check_splits(job: &JobFile, problems: &mut Problems) {
    let (data, train) = (&job.data, &job.train);
    if data.train.is_none() && train.do_train && !problems.is_wrong("data.train") {
        problems.violation("data.train", "is required unless train.do_train is false");
    }
    if data.validation.is_some() && data.validation_split.is_some() {
        problems.violation("data.validation_split", "cannot be combined with data.validation");
    }
    if let Some(split) = data.validation_split.filter(|split| *split >= 1.0)
        && (split < 2.0 || split.fract() != 0.0)
    {
        let description =
            format!("must be a share below 1 or a number of rows of at least 2, not {split}");
        problems.violation("data.validation_split", description);
    }
    if data.validation_split.is_some() && data.train.is_none() {
        problems.violation("data.validation_split", "needs data.train to take rows from");
    }
    if train.do_eval == Some(true) && !job.has_validation() {
        problems.violation("train.do_eval", "is true, but there is no data.validation");
    }
    if train.do_predict && data.test.is_none() {
        problems.violation("train.do_predict", "is true, but there is no data.test");
    }
    if !train.do_train && !job.evaluates() && data.test.is_none() {
        let description = "is false, and there are no rows to evaluate or predict either";
        problems.violation("train.do_train", description);
    }
}

/// Reports models that are neither folders nor hub ids, once it is known which of them are folders.
pub(crate) fn check_models(job: &JobFile, problems: &mut Problems) {
    let is_folder = matches!(job.model.name_or_path, ModelSource::Folder(_));
    if is_folder && job.model.revision.is_some() {
        problems.violation("model.revision", "applies to a hub id, not to a folder");
    }
    for (field, source) in job.models() {
        if let ModelSource::Hub(id) = source
            && !is_hub_name(id, 2)
        {
            let description =
                format!("`{id}` is neither a folder that exists nor a hub id such as `org/name`");
            problems.violation(field, description);
        }
    }
}

/// Checks the fields that apply only to data sets of the hub. Only resolved paths distinguish data
/// sets from folders.
pub(crate) fn check_data_sets(job: &JobFile, problems: &mut Problems) {
    let (data, splits) = (&job.data, [&job.data.train, &job.data.validation, &job.data.test]);
    let patterns = splits.into_iter().flatten().flat_map(|files| &files.patterns);
    let reads_data_set = patterns.into_iter().any(|pattern| DataFiles::is_data_set(pattern));
    let given = [
        ("data.revision", &data.revision),
        ("data.dataset_config_name", &data.dataset_config_name),
    ];
    for (field, value) in given {
        let Some(value) = value else { continue };
        if !is_hub_name(value, usize::MAX) {
            problems.violation(field, format!("`{value}` is not a valid name on the hub"));
        } else if !reads_data_set && !problems.is_wrong("data.") {
            problems.violation(field, "applies only to data sets on the hub, and the job has none");
        }
    }
}

fn check_train(job: &JobFile, problems: &mut Problems) {
    let train = &job.train;
    if train.max_steps == 0 {
        problems.violation("train.max_steps", "must be -1 or at least 1, not 0");
    }
    check_eval_strategy(job, problems);
    check_schedule(train, problems);
    optimizer::check(train, problems);
    if train.eval_on_start && !job.evaluates() {
        problems.violation("train.eval_on_start", "is true, but there is nothing to evaluate on");
    }
    if train.bf16 && train.fp16 {
        problems.violation("train.fp16", "cannot be combined with train.bf16");
    }
    let is_fused = job.model.attn_implementation == AttnImplementation::FlashAttention2;
    if is_fused && !(train.bf16 || train.fp16) {
        let description = "is `flash_attention_2`, which needs train.bf16 or train.fp16";
        problems.violation("model.attn_implementation", description);
    }
}

fn check_schedule(train: &Train, problems: &mut Problems) {
    let schedule = train.lr_scheduler_type;
    let kwargs = || train.lr_scheduler_kwargs.numbers();
    let path = "train.lr_scheduler_kwargs";
    check_schedule_options(train, problems);
    for (name, value) in kwargs() {
        if ["lr_end", "min_lr"].contains(&name) && value >= train.learning_rate {
            problems.violation(&join(path, name), "must be below train.learning_rate");
        }
    }
    check_required_options(train, problems);
    if schedule.follows_evaluations() && train.eval_strategy == EvalStrategy::No {
        let description =
            "is `reduce_lr_on_plateau`, which needs evaluations, but eval_strategy is `no`";
        problems.violation("train.lr_scheduler_type", description);
    }
    let is_constant = [LrSchedulerType::Constant, LrSchedulerType::ReduceLrOnPlateau];
    // This optimizer warms up by itself.
    let warms_up = train.optim == Optim::ScheduleFreeAdamW;
    if is_constant.contains(&schedule) && !warms_up && !train.warmup_steps.is_zero() {
        let description = format!(
            "has no effect with the scheduler `{schedule}`; `constant_with_warmup` warms up"
        );
        problems.warning(FIELD_UNUSED, "train.warmup_steps", description);
    }
}

/// Checks the options of the schedule, numbers and words.
fn check_schedule_options(train: &Train, problems: &mut Problems) {
    let (path, schedule) = ("train.lr_scheduler_kwargs", train.lr_scheduler_type);
    let (known, words) = (ranges(schedule.settings()), schedule.words());
    let mut all = names(&known);
    all.extend(words.iter().map(|(name, _)| *name));
    for (name, value) in train.lr_scheduler_kwargs.numbers() {
        let path = join(path, name);
        match words.iter().find(|(option, _)| *option == name) {
            Some((_, words)) => {
                problems.violation(&path, format!("must be {}, not {value}", one_of(words)));
            }
            None => check_option(&path, schedule.as_str(), (name, value), &known, &all, problems),
        }
    }
    for (name, word) in train.lr_scheduler_kwargs.words() {
        let path = join(path, name);
        match words.iter().find(|(option, _)| *option == name) {
            Some((_, words)) if words.contains(&word) => {}
            Some((_, words)) => {
                problems.violation(&path, format!("must be {}, not `{word}`", one_of(words)));
            }
            None if all.contains(&name) => {
                problems.violation(&path, format!("must be a number, not `{word}`"));
            }
            None => problems.violation(&path, unknown_option(schedule.as_str(), &all)),
        }
    }
}

/// The words as alternatives: `a, b or c`.
fn one_of(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// Options without a default, as transformers has them.
fn check_required_options(train: &Train, problems: &mut Problems) {
    let count = |names: &[&str]| {
        train.lr_scheduler_kwargs.numbers().filter(|(name, _)| names.contains(name)).count()
    };
    let path = "train.lr_scheduler_kwargs";
    match train.lr_scheduler_type {
        LrSchedulerType::CosineWithMinLr | LrSchedulerType::CosineWarmupWithMinLr
            if count(&["min_lr", "min_lr_rate"]) != 1 =>
        {
            problems.violation(path, "needs `min_lr` or `min_lr_rate`, and not both");
        }
        LrSchedulerType::WarmupStableDecay if count(&["num_decay_steps"]) == 0 => {
            problems.violation(path, "needs `num_decay_steps`");
        }
        _ => {}
    }
}

/// Checks the options of `owner` at `path` against those that are known.
fn check_options<'a>(
    path: &str,
    owner: &str,
    known: &[(&str, Range)],
    options: impl Iterator<Item = (&'a str, f64)>,
    problems: &mut Problems,
) {
    let names = names(known);
    for option in options {
        check_option(&join(path, option.0), owner, option, known, &names, problems);
    }
}

/// Checks an option at `path` that is a number; `names` are those of all options.
fn check_option(
    path: &str,
    owner: &str,
    (name, value): (&str, f64),
    known: &[(&str, Range)],
    names: &[&str],
    problems: &mut Problems,
) {
    match known.iter().find(|(option, _)| *option == name) {
        None => problems.violation(path, unknown_option(owner, names)),
        Some((_, range)) if !range.contains(value) => {
            problems.violation(path, format!("must be {range}, not {value}"));
        }
        Some(_) => {}
    }
}

/// The settings by name, with their ranges.
fn ranges(settings: &[Setting]) -> Vec<(&'static str, Range)> {
    settings.iter().map(|setting| (setting.name, setting.range)).collect()
}

/// The names of options with their ranges.
fn names<'name>(options: &[(&'name str, Range)]) -> Vec<&'name str> {
    options.iter().map(|(name, _)| *name).collect()
}

fn unknown_option(owner: &str, known: &[&str]) -> String {
    let names: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
    match names.is_empty() {
        true => format!("is not an option of `{owner}`, which has none"),
        false => format!("is not an option of `{owner}`, which has {}", names.join(", ")),
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
    if train.metric_for_best_model.is_some() && never_evaluates && !job.evaluates() {
        let description = match job.has_validation() {
            true => "is never computed: train.do_eval is false",
            false => "is never computed: there is no data.validation",
        };
        problems.violation("train.metric_for_best_model", description);
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

fn check_eval_strategy(job: &JobFile, problems: &mut Problems) {
    let strategy = job.train.eval_strategy;
    if strategy == EvalStrategy::No || job.evaluates() {
        return;
    }
    let description = match job.has_validation() {
        true => format!("is `{strategy}`, but train.do_eval is false"),
        false => format!("is `{strategy}`, but there is no data.validation"),
    };
    problems.violation("train.eval_strategy", description);
}

fn check_parallel(job: &JobFile, problems: &mut Problems) {
    let parallel = &job.parallel;
    if parallel.auto {
        check_auto(parallel, problems);
    }
    if parallel.sequence_parallel && parallel.tensor == 1 {
        let description = "has no effect with parallel.tensor: 1, which divides no layers";
        problems.warning(FIELD_UNUSED, "parallel.sequence_parallel", description);
    }
    mesh::check(job, problems);
    check_placement(job, problems);
    stages::check(job, problems);
    check_offload(parallel, problems);
}

/// Refuses keys that the planner would choose.
fn check_auto(parallel: &Parallel, problems: &mut Problems) {
    let given = [
        ("data", parallel.data.is_some()),
        ("tensor", parallel.tensor > 1),
        ("sequence_parallel", parallel.sequence_parallel),
        ("pipeline", parallel.pipeline > 1),
        ("pipeline_interleave", parallel.pipeline_interleave > 1),
        ("microbatches", parallel.microbatches.is_some()),
        ("fsdp", parallel.sharding() != Fsdp::No),
    ];
    for (key, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
        let description = "is chosen by the planner with parallel.auto; set only one of the two";
        problems.violation(&format!("parallel.{key}"), description);
    }
}

/// Refuses a Neuron job whose groups of cores that share layers are not neighbours.
fn check_placement(job: &JobFile, problems: &mut Problems) {
    let (parallel, order) = (&job.parallel, job.parallel.placement.order());
    if job.resources.platform != Platform::Neuron || parallel.tensor == 1 {
        return;
    }
    let between = order.chars().skip_while(|letter| *letter != 'T').skip(1);
    let size = |letter| {
        if letter == 'D' { job.host_data_parallel_size() } else { job.host_pipeline_size() }
    };
    if between.map(size).any(|size| size > 1) {
        let works = order.replace('T', "") + "T";
        let description = format!(
            "puts the cores that share layers apart, and on {} they must be neighbours; `{works}` \
             makes them so",
            Platform::Neuron
        );
        problems.violation("parallel.placement", description);
    }
}

/// Refuses to move what nothing keeps between programs.
fn check_offload(parallel: &Parallel, problems: &mut Problems) {
    if parallel.offload.activations && parallel.pipeline == 1 && !parallel.auto {
        let description = "moves what the stages of a pipeline keep, and parallel.pipeline is 1; \
            train.gradient_checkpointing keeps fewer activations";
        problems.violation("parallel.offload", description);
    }
    if parallel.activation_loading_horizon != LOADING_HORIZON && !parallel.offload.activations {
        let description = "has no effect without parallel.offload: activations";
        problems.warning(FIELD_UNUSED, "parallel.activation_loading_horizon", description);
    }
}
