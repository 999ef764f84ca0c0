//! The tasks of GLUE, as run_glue has them.

use serde_json::Value;

use super::Arguments;
use crate::draft::Draft;
use crate::shared::TABLES;

const KEY: &str = "task_name";

/// Data, columns and labels of a task.
pub(super) fn read(name: &str, arguments: &Arguments, draft: &mut Draft) {
    let name = name.to_lowercase();
    let Some((columns, labels)) = TABLES.glue.get(&name) else {
        let names: Vec<&str> = TABLES.glue.keys().map(String::as_str).collect();
        let text = format!(
            "`{name}` is none of GLUE's tasks ({}); name the data by dataset_name or train_file",
            names.join(", ")
        );
        return draft.refuse(KEY, text);
    };
    draft.set("data.train", "nyu-mll/glue".into(), KEY);
    if arguments.evaluates() {
        draft.set("data.validation", split(&name, "validation").into(), KEY);
    }
    if arguments.is_on("do_predict") {
        draft.set("data.test", split(&name, "test").into(), KEY);
    }
    draft.set("data.dataset_config_name", name.into(), KEY);
    for (path, column) in ["data.text", "data.text_pair"].into_iter().zip(columns) {
        draft.set(path, column.as_str().into(), KEY);
    }
    draft.set("model.num_labels", Value::from(*labels), KEY);
}

/// MNLI has two sets of each kind besides that to train on, of which the first is the usual one.
fn split(name: &str, split: &str) -> String {
    match name {
        "mnli" => format!("hf://datasets/nyu-mll/glue/mnli/{split}_matched-*.parquet"),
        _ => "nyu-mll/glue".to_owned(),
    }
}
