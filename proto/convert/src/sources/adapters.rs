//! LoRA's settings, which tools have under names of their own.

use serde_json::{Map, Value};
use traind_job_file::nearest_key;

use crate::draft::Draft;
use crate::values::{is_off, shown};

const UNUSED: &str = "dropped: applies to adapters alone";
const ALL_LINEAR: &str = "dropped: every linear layer is among them";
const IN_FOLDER: &str = "dropped: the config of the adapters that training starts from has it";

/// A key of the source, its field in the section `peft`, and the kind of its value.
pub(super) type Keys = &'static [(&'static str, &'static str, Kind)];

/// How a value is written.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Same,
    /// Names in a list or between commas; `all` for every linear layer.
    Names,
    /// True for every linear layer.
    AllLinear,
    /// A folder of adapters, or a list with one.
    Folder,
}

/// Sets the section `peft` where the job `trains_adapters`, else notes that its keys are unused.
pub(super) fn read(
    keys: Keys,
    trains_adapters: bool,
    settings: &Map<String, Value>,
    draft: &mut Draft,
) {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value));
    let starts =
        keys.iter().any(|(key, _, kind)| matches!(kind, Kind::Folder) && given(key).is_some());
    if trains_adapters {
        draft.imply("peft.method", "lora");
    }
    let takes_all =
        keys.iter().any(|(key, _, kind)| matches!(kind, Kind::AllLinear) && given(key).is_some());
    for (key, field, kind) in keys {
        let Some(value) = given(key) else { continue };
        if trains_adapters && takes_all && *field == "target_modules" && matches!(kind, Kind::Names)
        {
            of_all(key, value, draft);
            continue;
        }
        match (trains_adapters, starts, kind) {
            (false, ..) => draft.note(key, UNUSED),
            (true, true, Kind::Same | Kind::Names | Kind::AllLinear) => draft.note(key, IN_FOLDER),
            _ => set(&format!("peft.{field}"), value, *kind, key, draft),
        }
    }
}

/// Modules beside `all-linear`, which adds to them: the embedding and the head are none of those layers.
fn of_all(key: &str, value: &Value, draft: &mut Draft) {
    const APART: [&str; 5] = ["embed_tokens", "lm_head", "wte", "wpe", "embed_out"];
    let names = names(value);
    let mut names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
    match names.find(|name| APART.contains(name)) {
        Some(name) => draft.refuse(
            key,
            format!(
                "{name} is adapted beside every linear layer; list all modules here, and leave out \
                lora_target_linear"
            ),
        ),
        None => draft.note(key, ALL_LINEAR),
    }
}

/// Both tools keep the frozen weights of a model with adapters in the type that they compute in.
pub(super) fn frozen_weights(draft: &mut Draft) {
    let is_on = |path: &str| draft.get(path).is_some_and(|value| !is_off(value));
    if is_on("peft.method") && is_on("train.bf16") {
        draft.imply("model.dtype", "bfloat16");
    }
}

fn set(path: &str, value: &Value, kind: Kind, key: &str, draft: &mut Draft) {
    let value = match kind {
        Kind::Same => value.clone(),
        Kind::AllLinear => "all-linear".into(),
        Kind::Names if let Some(word) = misspelled_all(value) => {
            return draft.refuse(key, format!("is {}; did you mean `{word}`?", shown(value)));
        }
        Kind::Names => names(value),
        Kind::Folder => match folders(value).as_slice() {
            [folder] => folder.clone().into(),
            _ => return draft.refuse(key, "training starts from one folder of adapters; merge the others into the model before, and name \
                the last"),
        },
    };
    draft.set(path, value, key);
}

/// The word for every linear layer that a value is probably meant to be. No module has such a name.
fn misspelled_all(value: &Value) -> Option<&'static str> {
    const WORDS: [(&str, f64); 2] = [("all", 0.6), ("all-linear", 0.8)];
    let text = value.as_str()?;
    let word = text.to_lowercase();
    let is_near = |(all, similarity_min): &(&'static str, f64)| {
        nearest_key(&word, [*all].into_iter(), *similarity_min).is_some()
    };
    let near = WORDS.into_iter().find(is_near).map(|(all, _)| all)?;
    (!WORDS.iter().any(|(all, _)| *all == text)).then_some(near)
}

fn names(value: &Value) -> Value {
    match value {
        Value::String(text) if text == "all" || text == "all-linear" => "all-linear".into(),
        Value::String(text) => text.split(',').map(|name| Value::from(name.trim())).collect(),
        other => other.clone(),
    }
}

fn folders(value: &Value) -> Vec<String> {
    match value {
        Value::Array(folders) => folders.iter().map(shown).collect(),
        other => shown(other).split(',').map(|folder| folder.trim().to_owned()).collect(),
    }
}
