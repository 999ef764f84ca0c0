//! axolotl's own defaults, where the job file has others: one epoch, batches of one row, a cosine with
//! warmup, a checkpoint an epoch, evaluations as soon as a number asks for them.

use serde_json::{Map, Value};

use crate::draft::Draft;
use crate::values::is_off;

const SEQUENCE_LENGTH: u32 = 512;
const WARMUP_SHARE: f64 = 0.03;
const WARMUP_STEPS_MAX: u64 = 100;
const SAVE_TOTAL_LIMIT: u32 = 4;
const LOGGING_STEPS: u32 = 10;

pub(super) fn read(settings: &Map<String, Value>, draft: &mut Draft) {
    draft.imply("data.max_length", SEQUENCE_LENGTH);
    draft.imply("train.num_train_epochs", 1);
    draft.imply("train.per_device_train_batch_size", 1);
    if let Some(size) = draft.get("train.per_device_train_batch_size").cloned() {
        draft.imply("train.per_device_eval_batch_size", size);
    }
    draft.imply("train.lr_scheduler_type", "cosine");
    warmup(settings, draft);
    steps(draft);
    if draft.get("train.logging_steps").is_none() {
        draft.imply("train.logging_steps", LOGGING_STEPS);
        draft.note(
            "logging_steps",
            "axolotl logs every 0.5 % of the steps, at most 10 apart; 10 is set",
        );
    }
    let is_on = |key: &str| settings.get(key).is_some_and(|value| !is_off(value));
    let saves = if is_on("save_steps") { "steps" } else { "epoch" };
    draft.imply("train.save_strategy", saves);
    if draft.get("train.save_strategy").is_some_and(|strategy| !is_off(strategy)) {
        draft.imply("train.save_total_limit", SAVE_TOTAL_LIMIT);
    }
    evaluations(settings, draft);
}

/// axolotl takes the least number of steps that reads all rows of all epochs, across the ends of epochs.
fn steps(draft: &mut Draft) {
    let number = |path: &str| draft.get(path).and_then(Value::as_f64);
    let is_counted = number("train.max_steps").is_none_or(|steps| steps <= 0.0);
    if is_counted && number("train.num_train_epochs") != Some(1.0) {
        draft.note(
            "num_epochs",
            "the last batch of each epoch is a step of its own; axolotl takes rows x epochs / batch steps, rounded up \
            once: set train.max_steps to that for the same number",
        );
    }
}

/// 3 % of the steps, at most 100 of them. One step of warmup becomes two.
fn warmup(settings: &Map<String, Value>, draft: &mut Draft) {
    let steps = draft.get("train.max_steps").and_then(Value::as_u64).filter(|steps| *steps > 0);
    let ratio = settings.get("warmup_ratio").and_then(Value::as_f64);
    if let (Some(ratio), true) = (ratio, settings.get("warmup_steps").is_none_or(Value::is_null)) {
        return match steps {
            Some(steps) => {
                let steps = match (ratio * steps as f64) as u64 {
                    1 => 2,
                    steps => steps,
                };
                draft.set("train.warmup_steps", steps.into(), "warmup_ratio");
            }
            None => {
                draft.note("warmup_ratio", "the number of steps is rounded up, in axolotl down");
                draft.set("train.warmup_steps", ratio.into(), "warmup_ratio");
            }
        };
    }
    if draft.get("train.warmup_steps").is_some() {
        return;
    }
    match steps {
        Some(steps) => match (steps * 3 / 100).min(WARMUP_STEPS_MAX) {
            1 => draft.imply("train.warmup_steps", 2),
            steps => draft.imply("train.warmup_steps", steps),
        },
        None => {
            draft.imply("train.warmup_steps", WARMUP_SHARE);
            draft.note(
                "warmup_steps",
                "axolotl warms up for 3 % of the steps, rounded down, and at most 100; of more \
                than 3333 steps, set train.warmup_steps to 100",
            );
        }
    }
}

/// `eval_steps` alone evaluates, also before the first step; without rows for it, nothing does.
fn evaluations(settings: &Map<String, Value>, draft: &mut Draft) {
    let is_on = |key: &str| settings.get(key).is_some_and(|value| !is_off(value));
    if is_on("eval_steps") {
        draft.imply("train.eval_strategy", "steps");
    }
    let strategy = draft.get("train.eval_strategy");
    if strategy.is_some_and(|strategy| !is_off(strategy)) {
        draft.imply("train.eval_on_start", true);
    } else if super::evaluates(draft) {
        // Nothing evaluates at the end of a run.
        draft.imply("train.do_eval", false);
    }
}

/// The keys of evaluations that axolotl passes over, since it has no rows for them.
pub(super) fn is_without_rows(key: &str, settings: &Map<String, Value>, draft: &mut Draft) -> bool {
    const KEYS: [&str; 4] =
        ["eval_steps", "evals_per_epoch", "eval_strategy", "evaluation_strategy"];
    let is_on = |key: &str| settings.get(key).is_some_and(|value| !is_off(value));
    let has_rows = is_on("val_set_size") || is_on("test_datasets") || super::evaluates(draft);
    if has_rows || !KEYS.contains(&key) || !is_on(key) {
        return false;
    }
    draft.note(
        key,
        "dropped: there are no rows to evaluate on; give val_set_size a share above 0, test_datasets, \
        or data.validation by --set",
    );
    true
}
