//! TrainingArguments as JSON: what `TrainingArguments.to_json_string` writes.

use serde_json::{Map, Value};

use crate::application::apply;
use crate::draft::Draft;
use crate::rule::{Rule, Table};

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
        apply(&[TABLE], key, value, draft);
    }
    if settings.get("do_train") == Some(&Value::Bool(false)) {
        draft.note("do_train", format!("dropped: {SCRIPT}"));
    }
    if settings.get("do_predict") == Some(&Value::Bool(true)) {
        draft.set("train.do_predict", true.into(), "do_predict");
    }
}
