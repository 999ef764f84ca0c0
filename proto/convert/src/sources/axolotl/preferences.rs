//! axolotl's `rl: dpo`, `ipo`, `simpo`, `orpo` and `kto`, and its `reward_model`: training on preferences.

use serde_json::{Map, Value};

use super::layouts;
use crate::draft::Draft;
use crate::rule::{Rule, Table};
use crate::values::{is_off, shown};

const COMPILED: &str = "every step is one compiled program";
pub(super) const TABLE: Table = &[
    ("rl", Rule::Own),
    ("rl_beta", Rule::Own),
    ("trl", Rule::Own),
    ("dpo_loss_type", Rule::Own),
    ("dpo_loss_weights", Rule::Own),
    ("dpo_label_smoothing", Rule::Own),
    ("dpo_norm_loss", Rule::Own),
    ("dpo_use_weighting", Rule::Own),
    ("rpo_alpha", Rule::Own),
    ("cpo_alpha", Rule::Own),
    ("simpo_gamma", Rule::Own),
    ("orpo_alpha", Rule::Own),
    ("kto_desirable_weight", Rule::Own),
    ("kto_undesirable_weight", Rule::Own),
    ("reward_model", Rule::Own),
    ("center_rewards_coefficient", Rule::Own),
    ("num_labels", Rule::Own),
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

/// The task of an objective; None for fine-tuning.
pub(super) fn task(settings: &Map<String, Value>) -> Option<&'static str> {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value));
    match given("rl").map(shown).as_deref() {
        None => given("reward_model").map(|_| "reward"),
        Some("simpo") => Some("cpo"),
        Some("orpo") => Some("orpo"),
        Some("kto") => Some("kto"),
        Some(_) => Some("dpo"),
    }
}

/// Keys of objectives, each with the setting that it applies to and its field there.
const OWN: [(&str, &str, &str); 12] = [
    ("cpo_alpha", "rl: simpo", "cpo.cpo_alpha"),
    ("simpo_gamma", "rl: simpo", "cpo.simpo_gamma"),
    ("orpo_alpha", "rl: orpo", ""),
    ("kto_desirable_weight", "rl: kto", "kto.desirable_weight"),
    ("kto_undesirable_weight", "rl: kto", "kto.undesirable_weight"),
    (CENTER, "reward_model: true", "reward.center_rewards_coefficient"),
    ("dpo_loss_type", "rl: dpo", ""),
    ("dpo_loss_weights", "rl: dpo", ""),
    ("dpo_label_smoothing", "rl: dpo", ""),
    ("dpo_norm_loss", "rl: dpo", ""),
    ("dpo_use_weighting", "rl: dpo", "dpo.use_weighting"),
    ("rpo_alpha", "rl: dpo", ""),
];
const CENTER: &str = "center_rewards_coefficient";

/// Reads the objective, and the keys whose meaning depends on it.
pub(super) fn read(task: &str, settings: &Map<String, Value>, draft: &mut Draft) {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value));
    let objective = match given("rl").map(shown).as_deref() {
        Some("dpo" | "ipo") => {
            read_losses(settings, draft);
            "rl: dpo"
        }
        Some("simpo") => {
            draft.set("cpo.loss_type", "simpo".into(), "rl");
            "rl: simpo"
        }
        Some("orpo") => "rl: orpo",
        Some("kto") => {
            draft.imply("train.train_sampling_strategy", "sequential");
            "rl: kto"
        }
        None => {
            read_rewards(settings, draft);
            "reward_model: true"
        }
        Some(other) => {
            let known = "`dpo`, `ipo`, `simpo` and `orpo` train on pairs of answers, `kto` on desirable and other ones";
            return draft.refuse("rl", format!("`{other}` is not supported; {known}"));
        }
    };
    read_own(objective, settings, draft);
    read_beta(task, settings, draft);
    if let Some(length) = given("sequence_len") {
        draft.set("data.max_length", length.clone(), "sequence_len");
    }
    for key in ["sample_packing", "eval_sample_packing"] {
        if given(key).is_some() {
            draft.refuse(key, "rows of preferences are not packed; leave it out");
        }
    }
    if given("train_on_inputs").is_some() {
        draft.note("train_on_inputs", "dropped: prompts have no loss here");
    }
    if given("excess_length_strategy").is_none_or(|strategy| strategy != "truncate") {
        draft.note("sequence_len", LENGTHS);
    }
    layouts::template("", &Value::Object(settings.clone()), draft);
}

const LENGTHS: &str = "longer rows are cut, or left out where their prompt alone is longer, and for models of rewards; \
    axolotl leaves out all longer rows, and cuts those of models of rewards";

/// Sets the fields of an objective, and notes the keys of others.
fn read_own(objective: &str, settings: &Map<String, Value>, draft: &mut Draft) {
    for (key, of, path) in OWN {
        let is_weight = ["cpo_alpha", "simpo_gamma"].contains(&key);
        let given = |value: &&Value| !is_off(value) || (is_weight && value.is_number());
        let Some(value) = settings.get(key).filter(given) else { continue };
        if of != objective {
            draft.note(key, format!("dropped: applies to `{of}` alone"));
        } else if !path.is_empty() {
            draft.set(path, value.clone(), key);
        }
    }
}

/// A model of rewards is a classifier with one output.
fn read_rewards(settings: &Map<String, Value>, draft: &mut Draft) {
    if settings.get("num_labels").is_some_and(|count| !count.is_null() && *count != 1) {
        draft.refuse("num_labels", "a text has one reward; leave it out");
    }
}

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

/// `trl.beta` comes before `rl_beta`, and that before `orpo_alpha`, as in axolotl.
fn read_beta(task: &str, settings: &Map<String, Value>, draft: &mut Draft) {
    let trl = settings.get("trl").and_then(Value::as_object);
    let on = |value: &&Value| !is_off(value);
    let betas = [
        ("trl.beta", trl.and_then(|trl| trl.get("beta")).filter(on)),
        ("rl_beta", settings.get("rl_beta").filter(on)),
        ("orpo_alpha", settings.get("orpo_alpha").filter(|value| on(value) && task == "orpo")),
    ];
    match betas.into_iter().find_map(|(key, beta)| Some((key, beta?))) {
        Some((key, _)) if task == "reward" => {
            draft.note(key, "dropped: applies to `rl` alone");
        }
        Some((key, beta)) => draft.set(&format!("{task}.beta"), beta.clone(), key),
        None => {}
    }
    for (key, value) in trl.into_iter().flatten().filter(|(key, _)| *key != "beta") {
        if !is_off(value) {
            draft.note(&format!("trl.{key}"), "dropped: applies to `rl: grpo` alone");
        }
    }
}
