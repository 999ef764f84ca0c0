//! LLaMA-Factory's keys about templates of turns, the answers that are trained on, and mixed sets.

use serde_json::{Map, Value};
use traind_job_file::TURN_TEMPLATES;

use crate::draft::Draft;
use crate::rule::nearest;
use crate::values::{is_off, shown};

/// Reads the template and what belongs to it.
pub(super) fn read(settings: &Map<String, Value>, draft: &mut Draft) {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value));
    match given("template").map(shown).as_deref() {
        None => {
            let text = "the model folder's own chat template renders conversations as a whole";
            draft.note("template", text);
            draft.imply("data.chat_template", "tokenizer_default");
            return;
        }
        Some(name) if TURN_TEMPLATES.contains(&name) => {
            draft.set("data.template", name.into(), "template");
        }
        Some(name) => {
            let advice = match nearest(name, TURN_TEMPLATES.iter().copied()) {
                Some(nearest) => format!("is not known here; did you mean `{nearest}`?"),
                None => "is a template of models that are not supported, or unknown; choose one of data.template \
                    by --set"
                    .to_owned(),
            };
            if draft.get("data.template").is_none() {
                draft.refuse("template", format!("`{name}` {advice}"));
            }
        }
    }
    for (key, path) in [
        ("train_on_prompt", "data.train_on_inputs"),
        ("mask_history", "data.mask_history"),
        ("default_system", "data.default_system"),
    ] {
        let is_pair = draft.get("model.task").is_some_and(|task| task != "sft");
        if let Some(value) = given(key).filter(|_| !is_pair || key == "default_system") {
            draft.set(path, value.clone(), key);
        }
    }
    if settings.get("enable_thinking") == Some(&Value::Bool(false)) {
        draft.set("data.enable_thinking", false.into(), "enable_thinking");
    }
}

/// Reads how several sets are mixed.
pub(super) fn mixing(settings: &Map<String, Value>, draft: &mut Draft) {
    let strategy = settings.get("mix_strategy").filter(|value| !is_off(value)).map(shown);
    let mixing = match strategy.as_deref() {
        None | Some("concat") => return,
        Some("interleave_under") => "first_exhausted",
        Some("interleave_over") => "all_exhausted",
        Some("interleave_once") => "all_exhausted_without_replacement",
        Some(other) => {
            let text = format!("`{other}` is not known; `concat` and `interleave_under` are");
            return draft.refuse("mix_strategy", text);
        }
    };
    draft.set("data.mixing", mixing.into(), "mix_strategy");
}
