//! Several data sets in one config: TRL's `datasets`, alignment-handbook's `dataset_mixer` and open-r1's
//! `dataset_mixture`.

use serde_json::{Map, Value, json};

use crate::draft::Draft;
use crate::values::{is_off, shown};

/// The advice on a set that has no counterpart.
const GIVE: &str =
    "give the sets by --set data.train='[{path: ORG/NAME, split: train}, …]', and leave it out";

/// A data set of a mixture.
struct Set {
    path: Value,
    config: Option<Value>,
    split: String,
    /// The share of its rows that is taken.
    share: f64,
}

/// Reads the keys of mixtures; returns false where there are none.
pub(super) fn read(settings: &Map<String, Value>, draft: &mut Draft) -> bool {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value));
    let (key, sets, held) = if let Some(sets) = given("datasets") {
        ("datasets", of_list(sets), given("test_split_size"))
    } else if let Some(mixture) = given("dataset_mixture") {
        let held = mixture.get("test_split_size").filter(|value| !is_off(value));
        ("dataset_mixture", mixture.get("datasets").and_then(of_list), held)
    } else if let Some(mixer) = given("dataset_mixer") {
        ("dataset_mixer", of_mapping(mixer, settings), None)
    } else {
        for key in ["test_split_size", "dataset_splits", "dataset_configs"] {
            if given(key).is_some() {
                draft.refuse(key, "applies to several data sets alone; leave it out");
            }
        }
        return false;
    };
    let Some(sets) = sets.filter(|sets| !sets.is_empty()) else {
        draft.refuse(key, GIVE);
        return true;
    };
    config(key, &sets, draft);
    let train: Vec<Value> = sets.iter().filter_map(|set| set.entry(key, draft)).collect();
    draft.set("data.train", train.into(), key);
    match held {
        Some(size) => draft.set("data.validation_split", size.clone(), "test_split_size"),
        None if key == "dataset_mixer" => validation(settings, &sets, draft),
        None => {}
    }
    true
}

/// A list of mappings, each with a hub id or a name of files.
fn of_list(sets: &Value) -> Option<Vec<Set>> {
    let set = |set: &Value| {
        let given = |key: &str| set.get(key).filter(|value| !is_off(value));
        // Files stand beside the name of their format.
        let path = given("data_files").or_else(|| given("path")).or_else(|| given("id"))?;
        Some(Set {
            path: path.as_str().filter(|_| given("data_dir").is_none())?.into(),
            config: given("name").or_else(|| given("config")).cloned(),
            split: given("split").map_or_else(|| "train".to_owned(), shown),
            share: given("weight").map_or(Some(1.0), Value::as_f64)?,
        })
    };
    sets.as_array()?.iter().map(set).collect()
}

/// Shares by hub id, with the splits beside them.
fn of_mapping(mixer: &Value, settings: &Map<String, Value>) -> Option<Vec<Set>> {
    let configs = settings.get("dataset_configs").and_then(Value::as_array);
    let split = splits(settings).into_iter().next().unwrap_or_else(|| "train".to_owned());
    let set = |(place, (id, share)): (usize, (&String, &Value))| {
        Some(Set {
            path: id.as_str().into(),
            config: configs.and_then(|configs| configs.get(place)).cloned(),
            split: split.clone(),
            share: share.as_f64()?,
        })
    };
    mixer.as_object()?.iter().enumerate().map(set).collect()
}

fn splits(settings: &Map<String, Value>) -> Vec<String> {
    let splits = settings.get("dataset_splits").and_then(Value::as_array);
    splits.into_iter().flatten().map(shown).collect()
}

/// Evaluates on the other split of all sets, whole, as the handbook does.
fn validation(settings: &Map<String, Value>, sets: &[Set], draft: &mut Draft) {
    let Some(split) = splits(settings).into_iter().find(|split| split.contains("test")) else {
        return;
    };
    let held: Vec<Value> =
        sets.iter().map(|set| json!({"path": set.path, "split": split})).collect();
    draft.set("data.validation", held.into(), "dataset_splits");
}

/// Sets the configuration that all sets have.
fn config(key: &str, sets: &[Set], draft: &mut Draft) {
    let first = &sets[0].config;
    if sets.iter().any(|set| set.config != *first) {
        return draft.refuse(key, format!("its sets have several configurations; {GIVE}"));
    }
    if let Some(config) = first {
        draft.set("data.dataset_config_name", config.clone(), key);
    }
}

impl Set {
    /// The set as an entry of `data.train`.
    fn entry(&self, key: &str, draft: &mut Draft) -> Option<Value> {
        let percent = (self.share * 100.0).round();
        let split = match percent {
            _ if (self.share * 100.0 - percent).abs() > 1e-9 => {
                let text = format!("{} is no share in whole percent of a set; {GIVE}", self.share);
                draft.refuse(key, text);
                return None;
            }
            100.0 => self.split.clone(),
            percent if percent > 0.0 && percent < 100.0 => {
                let text = "a share of a set is its first rows, where the tool draws them";
                draft.note(key, text);
                format!("{}[:{percent}%]", self.split)
            }
            _ => {
                draft.refuse(key, format!("takes {} of a set; {GIVE}", self.share));
                return None;
            }
        };
        Some(json!({"path": self.path, "split": split}))
    }
}
