//! Configs and command lines of TRL's scripts `sft`, `dpo`, `reward`, `kto`, `orpo` and `cpo`.

mod mixtures;
mod tables;

use serde_json::{Map, Value, json};

use crate::application::apply;
use crate::draft::Draft;
use crate::sources::adapters::{self, Keys, Kind};
use crate::values::{is_off, shown};
pub(crate) use tables::Script;
use tables::{SCRIPTS, SHARED, is_special};

const ADAPTERS: Keys = &[
    ("lora_r", "r", Kind::Same),
    ("lora_alpha", "lora_alpha", Kind::Same),
    ("lora_dropout", "lora_dropout", Kind::Same),
    ("lora_target_modules", "target_modules", Kind::Names),
    ("lora_modules_to_save", "modules_to_save", Kind::Names),
    ("use_rslora", "use_rslora", Kind::Same),
    ("use_dora", "use_dora", Kind::Same),
];

/// The default of `max_length`.
const LENGTH: u32 = 1024;

/// The script that a file or TRL's command of this name runs, if it is one that is converted.
pub(crate) fn script(name: &str) -> Option<&'static Script> {
    let name = if name == "reward_modeling" { "reward" } else { name };
    known(name)
}

fn known(name: &str) -> Option<&'static Script> {
    SCRIPTS.iter().find(|script| script.name == name)
}

/// Reads the settings of a script; `script` is the one that a command line runs.
pub(crate) fn read(
    script: Option<&'static Script>,
    settings: &Map<String, Value>,
    draft: &mut Draft,
) {
    let given = || draft.get("model.task").and_then(Value::as_str).and_then(known);
    let Some(script) = script.or_else(given).or_else(|| suggested(settings)) else {
        return draft.refuse(
            "",
            "does not say which of TRL's scripts reads it: give it by --set model.task=sft, or dpo, reward, kto, orpo or \
             cpo; if an example script of transformers reads it, convert the command line"
        );
    };
    draft.imply("model.task", script.name);
    let tables = [&[SHARED], script.own].concat();
    for (key, value) in settings {
        apply(&tables, key, value, draft);
    }
    phases(settings, draft);
    let trains_adapters = settings.get("use_peft").is_some_and(|value| !is_off(value));
    adapters::read(ADAPTERS, trains_adapters, settings, draft);
    weights(settings, trains_adapters, draft);
    data(settings, draft);
    lengths(settings, draft);
    match script.name {
        "sft" => loss(settings, draft),
        "cpo" => contrastive(settings, draft),
        _ => {}
    }
    defaults(script, trains_adapters, settings, draft);
}

/// Notes what the arguments about phases ask for, where the scripts do something else.
fn phases(settings: &Map<String, Value>, draft: &mut Draft) {
    if settings.get("do_train").is_some_and(is_off) {
        draft.note("do_train", "dropped: TRL's scripts train whatever it says");
    }
    if settings.get("do_predict").is_some_and(|value| !is_off(value)) {
        draft.note("do_predict", "dropped: TRL's scripts do not look at it");
    }
}

/// The only script that has all keys that some scripts lack.
fn suggested(settings: &Map<String, Value>) -> Option<&'static Script> {
    let special = || settings.keys().filter(|key| is_special(key));
    special().next()?;
    let losses: Vec<String> = match settings.get("loss_type") {
        Some(Value::Array(losses)) => losses.iter().map(shown).collect(),
        loss => loss.into_iter().map(shown).collect(),
    };
    let reads = |script: &&Script| {
        special().all(|key| script.owns(key))
            && losses.iter().all(|loss| script.losses.contains(&loss.as_str()))
    };
    let mut found = SCRIPTS.iter().filter(reads);
    found.next().filter(|_| found.next().is_none())
}

/// The revision, and the type of weights.
fn weights(settings: &Map<String, Value>, trains_adapters: bool, draft: &mut Draft) {
    if let Some(revision) = settings.get("model_revision").filter(|name| *name != "main") {
        draft.set("model.revision", revision.clone(), "model_revision");
    }
    let stated =
        ["dtype", "torch_dtype"].into_iter().find_map(|key| Some((key, settings.get(key)?)));
    let Some((key, dtype)) = stated.filter(|(_, dtype)| !is_off(dtype)) else { return };
    match (shown(dtype).as_str(), trains_adapters) {
        ("float32", _) => {}
        ("bfloat16", true) => draft.set("model.dtype", "bfloat16".into(), key),
        (name, _) => draft.note(
            key,
            format!("dropped: trained weights are float32, not {name}; bf16 computes in bfloat16"),
        ),
    }
}

/// The data set, and its split to evaluate on where there are evaluations.
fn data(settings: &Map<String, Value>, draft: &mut Draft) {
    if mixtures::read(settings, draft) {
        return;
    }
    let Some(name) = settings.get("dataset_name").filter(|name| !is_off(name)) else { return };
    let split = |key: &str, usual: &str| settings.get(key).map_or(usual.to_owned(), shown);
    let train = split("dataset_train_split", "train");
    let of_split = |split: &str| json!([{"path": name, "split": split}]);
    let train = if train == "train" { name.clone() } else { of_split(&train) };
    draft.set("data.train", train, "dataset_name");
    let evaluates = settings.get("eval_strategy").is_some_and(|value| !is_off(value));
    if evaluates && draft.get("data.validation_split").is_none() {
        let test = split("dataset_test_split", "test");
        draft.set("data.validation", of_split(&test), "dataset_test_split");
    }
}

fn lengths(settings: &Map<String, Value>, draft: &mut Draft) {
    match settings.get("max_length") {
        Some(Value::Null) => {
            draft.note("max_length", "null: rows are cut to the model's positions")
        }
        Some(length) => draft.set("data.max_length", length.clone(), "max_length"),
        None => draft.imply("data.max_length", LENGTH),
    }
    if settings.get("truncation_mode").is_some_and(|mode| mode != "keep_start") {
        draft.refuse("truncation_mode", "rows lose their ends; leave it out");
    }
    if let Some(multiple) = settings.get("pad_to_multiple_of").filter(|value| value.is_number()) {
        draft.set("data.pad_to_multiple_of", multiple.clone(), "pad_to_multiple_of");
    }
}

fn loss(settings: &Map<String, Value>, draft: &mut Draft) {
    if settings.get("loss_type").is_some_and(|loss| loss == "dft") {
        draft.refuse(
            "loss_type",
            "the loss is the cross entropy of all targets alike; leave it out",
        );
    }
}

/// Keys of CPO that not all of its losses read.
fn contrastive(settings: &Map<String, Value>, draft: &mut Draft) {
    let loss = settings.get("loss_type").map_or("sigmoid".to_owned(), shown);
    let read = [
        ("label_smoothing", !["hinge", "ipo"].contains(&loss.as_str())),
        ("simpo_gamma", ["simpo", "alphapo"].contains(&loss.as_str())),
        ("cpo_alpha", loss != "alphapo"),
    ];
    for (key, is_read) in read {
        let Some(value) = settings.get(key).filter(|value| !value.is_null()) else { continue };
        match is_read {
            true => draft.set(&format!("cpo.{key}"), value.clone(), key),
            false => draft.note(key, "dropped: applies to other losses alone"),
        }
    }
}

/// Defaults of TRL that are not those of TrainingArguments.
fn defaults(
    script: &Script,
    trains_adapters: bool,
    settings: &Map<String, Value>,
    draft: &mut Draft,
) {
    let is_on = |key: &str| settings.get(key).is_some_and(|value| !is_off(value));
    draft.imply("train.learning_rate", script.learning_rate);
    if script.name == "kto" {
        // Each row's neighbours are those of its batch.
        draft.imply("train.train_sampling_strategy", "sequential");
    }
    draft.imply("train.logging_steps", 10);
    draft.imply("train.gradient_checkpointing", true);
    if !is_on("fp16") {
        draft.imply("train.bf16", true);
    }
    if trains_adapters {
        draft.imply("peft.r", 16);
        draft.imply("peft.lora_alpha", 32);
        draft.imply("peft.lora_dropout", 0.05);
    }
}
