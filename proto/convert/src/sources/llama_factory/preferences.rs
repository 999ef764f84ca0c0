//! LLaMA-Factory's `stage: dpo` and `stage: rm`: training on preferences.

use serde_json::{Map, Value};

use super::{CUTOFF_LENGTH, templates};
use crate::draft::Draft;
use crate::rule::{Rule, Table};
use crate::values::{is_off, shown};

const ALONE: &str = "the loss is that of preferences alone; leave it out";
const REFERENCE: &str = "a reference is a whole model with float32 weights; leave it out";
const OTHER_LOSS: &str = "applies to other losses alone";

pub(super) const TABLE: Table = &[
    ("pref_beta", Rule::Own),
    ("pref_loss", Rule::Own),
    ("pref_ftx", Rule::Refused(ALONE)),
    ("pref_bco_weight", Rule::Refused(ALONE)),
    (
        "dpo_label_smoothing",
        Rule::Refused("dpo.label_smoothing is that of loss_type: robust, whose loss differs"),
    ),
    ("ld_alpha", Rule::Refused("all tokens of an answer count alike; leave it out")),
    ("simpo_gamma", Rule::Own),
    ("kto_chosen_weight", Rule::Dropped(OTHER_LOSS)),
    ("kto_rejected_weight", Rule::Dropped(OTHER_LOSS)),
    ("ref_model", Rule::Own),
    ("ref_model_adapters", Rule::Refused(REFERENCE)),
    ("ref_model_quantization_bit", Rule::Refused(REFERENCE)),
];

/// Notes a key of the table that says nothing in other stages; returns false for other keys.
pub(super) fn is_unused(key: &str, value: &Value, draft: &mut Draft) -> bool {
    let is_own = TABLE.iter().any(|(name, _)| *name == key);
    if is_own && !is_off(value) {
        draft.note(key, "dropped: applies to preference training alone");
    }
    is_own
}

/// Reads the keys whose meaning depends on the stage. Dropout is off in both tools.
pub(super) fn read(settings: &Map<String, Value>, draft: &mut Draft) {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value));
    let loss = given("pref_loss").map(shown);
    let fields: &[(&str, &str)] = match loss.as_deref() {
        Some("simpo") => &[("pref_beta", "cpo.beta"), ("simpo_gamma", "cpo.simpo_gamma")],
        _ => &[("pref_beta", "dpo.beta"), ("ref_model", "dpo.ref_model_name_or_path")],
    };
    match loss.as_deref() {
        Some("simpo") => {
            draft.imply("model.task", "cpo");
            draft.set("cpo.loss_type", "simpo".into(), "pref_loss");
            draft.imply("cpo.cpo_alpha", 0.0);
        }
        Some(loss @ ("sigmoid" | "hinge" | "ipo")) => {
            draft.imply("model.task", "dpo");
            draft.set("dpo.loss_type", loss.into(), "pref_loss");
        }
        None => draft.imply("model.task", "dpo"),
        Some(other) => draft.refuse(
            "pref_loss",
            format!("`{other}` is not supported; `sigmoid`, `hinge`, `ipo` and `simpo` are"),
        ),
    }
    for key in ["pref_beta", "simpo_gamma", "ref_model"] {
        let Some(value) = given(key) else { continue };
        match fields.iter().find(|(name, _)| *name == key) {
            Some((_, path)) => draft.set(path, value.clone(), key),
            None => draft.note(key, format!("dropped: {OTHER_LOSS}")),
        }
    }
    read_pairs(settings, draft);
}

/// A model of rewards, which is the whole output here, and in LLaMA-Factory a value head of a language model.
pub(super) fn read_rewards(settings: &Map<String, Value>, draft: &mut Draft) {
    draft.imply("model.task", "reward");
    draft.note("stage", "the output is a classifier with one output, and has no value head");
    read_pairs(settings, draft);
}

fn read_pairs(settings: &Map<String, Value>, draft: &mut Draft) {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value));
    let length = given("cutoff_len").cloned().unwrap_or(CUTOFF_LENGTH.into());
    draft.set("data.max_length", length, "cutoff_len");
    for key in ["packing", "neat_packing"] {
        if given(key).is_some() {
            draft.refuse(key, "pairs are not packed; leave it out");
        }
    }
    if given("train_on_prompt").is_some() {
        draft.note("train_on_prompt", "dropped: the prompt of a pair has no loss");
    }
    templates::read(settings, draft);
}
