//! axolotl's `rl: dpo`, `rl: ipo` and `rl: simpo`: training on preferences.

use serde_json::{Map, Value};

use super::datasets;
use crate::draft::Draft;
use crate::rule::{Rule, Table};
use crate::values::{is_off, shown};

const COMPILED: &str = "every step is one compiled program";
const TYPES: &str = "is not supported; `chat_template.default` and `chat_template.argilla_chat` \
    train on messages, `passthrough` on texts";

pub(super) const TABLE: Table = &[
    ("rl", Rule::Own),
    ("rl_beta", Rule::Own),
    ("trl", Rule::Own),
    ("dpo_loss_type", Rule::Own),
    ("dpo_loss_weights", Rule::Own),
    ("dpo_label_smoothing", Rule::Own),
    ("dpo_norm_loss", Rule::Own),
    ("dpo_use_weighting", Rule::Field("dpo.use_weighting")),
    ("rpo_alpha", Rule::Own),
    ("cpo_alpha", Rule::Own),
    ("simpo_gamma", Rule::Own),
    ("dpo_use_logits_to_keep", Rule::Dropped("the compiler plans the memory of a step")),
    ("dpo_padding_free", Rule::Dropped("rows are padded as needed, and padding is masked")),
    ("dpo_use_liger_kernel", Rule::Dropped(COMPILED)),
    ("dpo_generate_during_eval", Rule::Dropped("`traind generate` writes texts at any time")),
    ("precompute_ref_log_probs", Rule::Dropped("the reference is part of the compiled step")),
    ("rl_adapter_ref_model", Rule::Dropped("the reference is the model without its adapters")),
];

/// Notes a key of the table that says nothing without preferences; returns false for other keys.
pub(super) fn is_unused(key: &str, value: &Value, draft: &mut Draft) -> bool {
    let is_own = TABLE.iter().any(|(name, _)| *name == key);
    if is_own && !is_off(value) {
        draft.note(key, "dropped: applies to preferences alone");
    }
    is_own
}

/// Whether the objective is SimPO, which has no reference.
pub(super) fn is_simpo(settings: &Map<String, Value>) -> bool {
    settings.get("rl").map(shown).as_deref() == Some("simpo")
}

/// Reads the objective, and the keys whose meaning depends on it.
pub(super) fn read(settings: &Map<String, Value>, draft: &mut Draft) {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value));
    match given("rl").map(shown).as_deref() {
        Some("dpo" | "ipo") | None => {
            note_unused(&OF_SIMPO, "`rl: simpo`", settings, draft);
            read_losses(settings, draft);
        }
        Some("simpo") => read_simpo(settings, draft),
        Some(other) => {
            return draft.refuse(
                "rl",
                format!(
                    "`{other}` is not supported; `dpo`, `ipo` and `simpo` train on pairs of answers"
                ),
            );
        }
    }
    read_beta(settings, draft);
    if let Some(length) = given("sequence_len") {
        draft.set("data.max_length", length.clone(), "sequence_len");
    }
    for key in ["sample_packing", "eval_sample_packing"] {
        if given(key).is_some() {
            draft.refuse(key, "pairs are not packed; leave it out");
        }
    }
    if given("train_on_inputs").is_some() {
        draft.note("train_on_inputs", "dropped: the prompt of a pair has no loss");
    }
    datasets::template("", &Value::Object(settings.clone()), draft);
}

/// SimPO, which axolotl trains by TRL's CPOTrainer with its defaults.
fn read_simpo(settings: &Map<String, Value>, draft: &mut Draft) {
    draft.set("cpo.loss_type", "simpo".into(), "rl");
    for key in OF_SIMPO {
        if let Some(value) = settings.get(key).filter(|value| !value.is_null()) {
            draft.set(&format!("cpo.{key}"), value.clone(), key);
        }
    }
    note_unused(&OF_DPO, "`rl: dpo`", settings, draft);
}

/// Notes keys of another objective.
fn note_unused(keys: &[&str], objective: &str, settings: &Map<String, Value>, draft: &mut Draft) {
    for key in keys.iter().filter(|key| settings.get(**key).is_some_and(|value| !is_off(value))) {
        draft.note(key, format!("dropped: applies to {objective} alone"));
    }
}

const OF_SIMPO: [&str; 2] = ["cpo_alpha", "simpo_gamma"];
const OF_DPO: [&str; 5] =
    ["dpo_loss_type", "dpo_loss_weights", "dpo_label_smoothing", "dpo_norm_loss", "rpo_alpha"];

/// The losses of `rl: dpo`, or that of `ipo`, to which `rpo_alpha` adds that of the chosen answers.
fn read_losses(settings: &Map<String, Value>, draft: &mut Draft) {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value));
    let is_ipo = given("rl").map(shown).as_deref() == Some("ipo");
    let mut losses = match given("dpo_loss_type") {
        _ if is_ipo => vec!["ipo".into()],
        Some(Value::Array(losses)) => losses.clone(),
        Some(loss) => vec![loss.clone()],
        None if given("dpo_norm_loss").is_some() => vec!["sigmoid_norm".into()],
        None => vec!["sigmoid".into()],
    };
    let mut weights = match given("dpo_loss_weights") {
        Some(Value::Array(weights)) => weights.clone(),
        _ => vec![1.0.into(); losses.len()],
    };
    read_smoothing(given("dpo_label_smoothing"), &losses, draft);
    if given("dpo_norm_loss").is_some() && losses != [Value::from("sigmoid_norm")] {
        draft.refuse("dpo_norm_loss", "is the loss `sigmoid_norm`; name it in dpo_loss_type");
    }
    if let Some(alpha) = given("rpo_alpha") {
        losses.push("sft".into());
        weights.push(alpha.clone());
    }
    let keys = ["rpo_alpha", "dpo_loss_type", "dpo_norm_loss", "dpo_loss_weights"];
    let key = keys.into_iter().find(|key| given(key).is_some());
    let Some(key) = key.or(is_ipo.then_some("rl")) else { return };
    let is_weighted = ["rpo_alpha", "dpo_loss_weights"].iter().any(|key| given(key).is_some());
    let losses = if losses.len() == 1 { losses.remove(0) } else { losses.into() };
    draft.set("dpo.loss_type", losses, key);
    if is_weighted {
        draft.set("dpo.loss_weights", weights.into(), key);
    }
}

fn read_smoothing(smoothing: Option<&Value>, losses: &[Value], draft: &mut Draft) {
    const KEY: &str = "dpo_label_smoothing";
    const SMOOTHED: [&str; 4] = ["robust", "exo_pair", "aot", "aot_unpaired"];
    let Some(smoothing) = smoothing else { return };
    if losses.iter().any(|loss| SMOOTHED.contains(&shown(loss).as_str())) {
        draft.set("dpo.label_smoothing", smoothing.clone(), KEY);
    } else {
        draft.refuse(KEY, "dpo.label_smoothing is that of loss_type: robust, whose loss differs");
    }
}

/// `trl.beta` comes before `rl_beta`, as in axolotl.
fn read_beta(settings: &Map<String, Value>, draft: &mut Draft) {
    let path = if is_simpo(settings) { "cpo.beta" } else { "dpo.beta" };
    let trl = settings.get("trl").and_then(Value::as_object);
    let beta = trl.and_then(|trl| trl.get("beta")).filter(|value| !is_off(value));
    match (beta, settings.get("rl_beta").filter(|value| !is_off(value))) {
        (Some(beta), _) => draft.set(path, beta.clone(), "trl.beta"),
        (None, Some(beta)) => draft.set(path, beta.clone(), "rl_beta"),
        (None, None) => {}
    }
    for (key, value) in trl.into_iter().flatten().filter(|(key, _)| *key != "beta") {
        if !is_off(value) {
            draft.note(&format!("trl.{key}"), "dropped: applies to `rl: grpo` alone");
        }
    }
}

/// The columns of a data set of pairs, and the settings that are the set's own.
pub(super) fn read_columns(
    key: &str,
    kind: &str,
    entry: &Value,
    draft: &mut Draft,
) -> Map<String, Value> {
    let mut settings = Map::new();
    let columns: &[(&str, &str)] = match kind {
        "chat_template" | "chat_template.default" => {
            datasets::messages(key, entry, &mut settings, draft);
            // Under other names, messages are in a layout; else they are TRL's prompts.
            let names = ["roles", "message_property_mappings", "columns"];
            if names.iter().any(|name| settings.contains_key(*name)) {
                settings.insert("format".to_owned(), "messages".into());
            } else {
                let column = settings.remove("messages").unwrap_or_else(|| "messages".into());
                draft.imply("data.prompt", column);
            }
            &COMPLETIONS
        }
        "chat_template.argilla" | "chat_template.argilla_chat" => {
            datasets::messages(key, entry, &mut settings, draft);
            for name in ["roles", "message_property_mappings"] {
                if settings.contains_key(name) {
                    draft.refuse(&format!("{key}.{name}"), "messages have role and content here");
                }
            }
            settings.clear();
            &COMPLETIONS
        }
        "passthrough" | "passthrough.default" => &[],
        other => {
            draft.refuse(&format!("{key}.type"), format!("`{other}` {TYPES}"));
            return settings;
        }
    };
    if !columns.is_empty() {
        draft.note(&format!("{key}.type"), ENDS);
    }
    for (field, path) in columns {
        if let Some(column) = entry.get(*field) {
            draft.set(path, column.clone(), field);
        }
    }
    settings
}

const ENDS: &str = "answers end as the template ends a turn; axolotl leaves out the white space after it, and adds the \
    end-of-sequence token";

const COMPLETIONS: [(&str, &str); 2] =
    [("field_chosen", "data.chosen"), ("field_rejected", "data.rejected")];
