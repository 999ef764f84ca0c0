//! How often axolotl evaluates and saves, and the model that it ends with.

use serde_json::{Map, Value};

use super::evaluates;
use crate::draft::Draft;
use crate::values::is_off;

pub(super) fn read(settings: &Map<String, Value>, draft: &mut Draft) {
    if evaluates(draft) {
        per_epoch("evals_per_epoch", "eval", settings, draft);
    }
    per_epoch("saves_per_epoch", "save", settings, draft);
    best_model(settings, draft);
}

/// A number in each epoch is a share of all steps. Once in the whole run is no share.
fn per_epoch(key: &str, what: &str, settings: &Map<String, Value>, draft: &mut Draft) {
    let Some(count) = settings.get(key).and_then(Value::as_f64).filter(|count| *count > 0.0) else {
        return;
    };
    let strategy = format!("train.{what}_strategy");
    let epochs = settings.get("num_epochs").and_then(Value::as_f64).unwrap_or(1.0);
    let share = 1.0 / (count * epochs);
    if share < 1.0 {
        draft.note(key, format!("a share of all steps: 1 / ({count} x {epochs} epochs)"));
        draft.set(&strategy, "steps".into(), "");
        draft.set(&format!("train.{what}_steps"), share.into(), key);
    } else if what == "eval" {
        draft.note(
            key,
            "axolotl evaluates nothing where it is at most once in the run; here, at its end",
        );
        draft.set(&strategy, "epoch".into(), key);
    } else {
        draft.set(&strategy, "epoch".into(), key);
    }
}

/// axolotl ends with the best checkpoint wherever every checkpoint was evaluated.
fn best_model(settings: &Map<String, Value>, draft: &mut Draft) {
    const KEY: &str = "load_best_model_at_end";
    let is_on = |key: &str| settings.get(key).is_some_and(|value| !is_off(value));
    let steps = |what: &str| draft.get(&format!("train.{what}_steps")).and_then(Value::as_f64);
    let are_evaluated = evaluates(draft)
        && matches!((steps("save"), steps("eval")), (Some(save), Some(eval)) if save % eval == 0.0);
    let is_refused = settings.get(KEY) == Some(&Value::Bool(false));
    if are_evaluated && (!is_refused || is_on("early_stopping_patience")) {
        draft.set("train.load_best_model_at_end", true.into(), if is_on(KEY) { KEY } else { "" });
    } else if is_on(KEY) {
        draft.note(
            KEY,
            "dropped: axolotl loads it only where save_steps is a multiple of eval_steps",
        );
    }
}
