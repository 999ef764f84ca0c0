//! The tasks of GLUE, as run_glue has them.

use serde_json::Value;

use crate::draft::Draft;

struct GlueTask {
    name: &'static str,
    text: &'static str,
    text_pair: Option<&'static str>,
    num_labels: u32,
}

macro_rules! tasks {
    ($($name:literal: $text:literal $(, $pair:literal)?; $labels:literal)+) => {
        &[$(GlueTask { name: $name, text: $text, text_pair: tasks!(@ $($pair)?), num_labels: $labels }),+]
    };
    (@) => { None };
    (@ $pair:literal) => { Some($pair) };
}

const TASKS: &[GlueTask] = tasks! {
    "cola": "sentence"; 2
    "mnli": "premise", "hypothesis"; 3
    "mrpc": "sentence1", "sentence2"; 2
    "qnli": "question", "sentence"; 2
    "qqp": "question1", "question2"; 2
    "rte": "sentence1", "sentence2"; 2
    "sst2": "sentence"; 2
    "stsb": "sentence1", "sentence2"; 1
    "wnli": "sentence1", "sentence2"; 2
};

/// Data, columns and labels of a task.
pub(super) fn read(name: &str, predicts: bool, draft: &mut Draft) {
    let key = "task_name";
    let Some(task) = TASKS.iter().find(|task| task.name == name.to_lowercase()) else {
        let names: Vec<&str> = TASKS.iter().map(|task| task.name).collect();
        return draft
            .refuse(key, format!("`{name}` is none of GLUE's tasks: {}", names.join(", ")));
    };
    draft.set("data.train", "nyu-mll/glue".into(), key);
    draft.set("data.validation", split(task.name, "validation").into(), key);
    if predicts {
        draft.set("data.test", split(task.name, "test").into(), key);
    }
    draft.set("data.dataset_config_name", task.name.into(), key);
    draft.set("data.text", task.text.into(), key);
    if let Some(pair) = task.text_pair {
        draft.set("data.text_pair", pair.into(), key);
    }
    draft.set("model.num_labels", Value::from(task.num_labels), key);
}

/// MNLI has two sets of each kind besides that to train on, of which the first is the usual one.
fn split(name: &str, split: &str) -> String {
    match name {
        "mnli" => format!("hf://datasets/nyu-mll/glue/mnli/{split}_matched-*.parquet"),
        _ => "nyu-mll/glue".to_owned(),
    }
}
