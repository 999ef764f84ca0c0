//! TrainingArguments as JSON: what `TrainingArguments.to_json_string` writes.

use serde_json::{Map, Value};

use super::sentence_transformers;
use crate::application::apply;
use crate::draft::Draft;
use crate::rule::{Rule, Table, keys};

const SCRIPT: &str =
    "the Trainer does not look at it; the job trains, and evaluates where there are rows for it";

const TABLE: Table = &[
    ("do_train", Rule::Own),
    ("do_eval", Rule::Own),
    ("do_predict", Rule::Own),
    ("logging_dir", Rule::Dropped("TensorBoard events are in `runs` of the output folder")),
    ("_n_gpu", Rule::Dropped("resources.cores is the number of cores")),
    ("__cached__setup_devices", Rule::Dropped("resources.platform selects the device")),
];

pub(crate) fn read(settings: &Map<String, Value>, draft: &mut Draft) {
    for (key, value) in settings {
        // Not all of them are shown in full, and the Trainer's own defaults are the job's.
        let is_empty = value.as_object().is_some_and(Map::is_empty);
        if !is_empty || !keys(&[sentence_transformers::TABLE]).any(|own| own == key) {
            apply(&[TABLE, sentence_transformers::TABLE], key, value, draft);
        }
    }
    sentence_transformers::read_samplers(settings, draft);
    if settings.get("do_train") == Some(&Value::Bool(false)) {
        draft.note("do_train", format!("dropped: {SCRIPT}"));
    }
    if settings.get("do_predict") == Some(&Value::Bool(true)) {
        draft.set("train.do_predict", true.into(), "do_predict");
    }
}
