//! LLaMA-Factory's `stage: dpo`, `stage: kto` and `stage: rm`: training on preferences.

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
    ("kto_chosen_weight", Rule::Own),
    ("kto_rejected_weight", Rule::Own),
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

/// Keys of objectives with their fields.
type Fields = &'static [(&'static str, &'static str)];

const OF_DPO: Fields = &[("pref_beta", "dpo.beta"), ("ref_model", "dpo.ref_model_name_or_path")];
const OF_ORPO: Fields = &[("pref_beta", "orpo.beta")];
const OF_SIMPO: Fields = &[("pref_beta", "cpo.beta"), ("simpo_gamma", "cpo.simpo_gamma")];
const OF_KTO: Fields = &[
    ("pref_beta", "kto.beta"),
    ("kto_chosen_weight", "kto.desirable_weight"),
    ("kto_rejected_weight", "kto.undesirable_weight"),
    ("ref_model", "kto.ref_model_name_or_path"),
];
/// All keys of such fields.
const KEYS: [&str; 5] =
    ["pref_beta", "simpo_gamma", "kto_chosen_weight", "kto_rejected_weight", "ref_model"];

/// Reads the keys whose meaning depends on the loss of pairs. Dropout is off in both tools.
pub(super) fn read(settings: &Map<String, Value>, draft: &mut Draft) {
    let loss = settings.get("pref_loss").filter(|value| !is_off(value)).map(shown);
    let fields = match loss.as_deref() {
        Some("simpo") => {
            draft.imply("model.task", "cpo");
            draft.set("cpo.loss_type", "simpo".into(), "pref_loss");
            draft.imply("cpo.cpo_alpha", 0.0);
            OF_SIMPO
        }
        Some("orpo") => {
            draft.imply("model.task", "orpo");
            draft.note("pref_loss", ORPO);
            OF_ORPO
        }
        Some(loss @ ("sigmoid" | "hinge" | "ipo")) => {
            draft.imply("model.task", "dpo");
            draft.set("dpo.loss_type", loss.into(), "pref_loss");
            OF_DPO
        }
        None => {
            draft.imply("model.task", "dpo");
            OF_DPO
        }
        Some(other) => {
            let known = "`sigmoid`, `hinge`, `ipo`, `orpo` and `simpo` are";
            draft.refuse("pref_loss", format!("`{other}` is not supported; {known}"));
            OF_DPO
        }
    };
    read_fields(fields, settings, draft);
    read_rows("pairs", settings, draft);
}

const ORPO: &str = "the loss of the chosen texts counts their prompts too, and all tokens of a batch alike, as in TRL; \
    in LLaMA-Factory it is the mean of each answer by itself";

/// Answers that are good or bad by themselves.
pub(super) fn read_answers(settings: &Map<String, Value>, draft: &mut Draft) {
    draft.imply("model.task", "kto");
    draft.note("stage", NEIGHBOURS);
    if settings.get("pref_loss").is_some_and(|value| !is_off(value)) {
        draft.note("pref_loss", "dropped: applies to `stage: dpo` alone");
    }
    read_fields(OF_KTO, settings, draft);
    read_rows("answers", settings, draft);
}

const NEIGHBOURS: &str = "the divergence is estimated from each prompt with the answer of the row before, or for the \
    first of a core's batch with that of its last row; in LLaMA-Factory, blocks have a thousand rows";

/// `stage: kto` with a row for each core and step, of which none has a neighbour here.
pub(super) fn pair_up_rows(draft: &mut Draft) {
    const ROWS: &str = "train.per_device_train_batch_size";
    const BATCHES: &str = "train.gradient_accumulation_steps";
    let number = |path: &str| draft.get(path).and_then(Value::as_u64);
    let (Some(1), Some(batches)) = (number(ROWS), number(BATCHES)) else { return };
    if batches.is_multiple_of(2)
        && draft.change(ROWS, |_| 2.into())
        && draft.change(BATCHES, |_| (batches / 2).into())
    {
        let text = format!(
            "2 rows in each of {} batches of a step, where LLaMA-Factory has {batches} of 1: a row needs another one to \
            estimate the divergence",
            batches / 2
        );
        draft.note("per_device_train_batch_size", text);
    }
}

/// Sets the fields of an objective, and notes the keys of others.
fn read_fields(fields: Fields, settings: &Map<String, Value>, draft: &mut Draft) {
    for key in KEYS {
        let Some(value) = settings.get(key).filter(|value| !is_off(value)) else { continue };
        match fields.iter().find(|(name, _)| *name == key) {
            Some((_, path)) => draft.set(path, value.clone(), key),
            None => draft.note(key, format!("dropped: {OTHER_LOSS}")),
        }
    }
}

/// A model of rewards, which is the whole output here, and in LLaMA-Factory a value head of a language model.
pub(super) fn read_rewards(settings: &Map<String, Value>, draft: &mut Draft) {
    draft.imply("model.task", "reward");
    draft.note("stage", "the output is a classifier with one output, and has no value head");
    read_rows("pairs", settings, draft);
}

fn read_rows(rows: &str, settings: &Map<String, Value>, draft: &mut Draft) {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value));
    let length = given("cutoff_len").cloned().unwrap_or(CUTOFF_LENGTH.into());
    draft.set("data.max_length", length, "cutoff_len");
    for key in ["packing", "neat_packing"] {
        if given(key).is_some() {
            draft.refuse(key, format!("{rows} are not packed; leave it out"));
        }
    }
    if given("train_on_prompt").is_some() {
        draft.note("train_on_prompt", "dropped: prompts have no loss here");
    }
    templates::read(settings, draft);
}
