//! `max_train_samples` and its like: the first rows of a split.

use serde_json::{Value, json};

use super::Arguments;
use crate::draft::Draft;
use crate::values::shown;

/// Argument and the field whose rows it limits.
const LIMITS: [(&str, &str); 3] = [
    ("max_train_samples", "data.train"),
    ("max_eval_samples", "data.validation"),
    ("max_predict_samples", "data.test"),
];

const ROWS: &str = "counts what the script makes of the rows, or rows that it draws; use train.max_steps, or files \
    with fewer rows, and leave the argument out";

/// Gives the sets of a split a limit, where the script takes the first rows as they are in the files.
pub(super) fn read(task: &str, arguments: &Arguments, draft: &mut Draft) {
    let takes_rows =
        matches!(task, "sequence-classification" | "token-classification" | "seq2seq-lm");
    for (key, path) in LIMITS {
        let Some(given) = arguments.0.get(key).filter(|given| !given.is_null()) else { continue };
        let Some(limit) = given.as_u64().filter(|limit| *limit > 0) else {
            draft.refuse(key, format!("must be a number of rows from 1, not {}", shown(given)));
            continue;
        };
        let is_drawn = path == "data.train" && arguments.is_on("shuffle_train_dataset");
        match draft.get(path) {
            _ if !takes_rows || is_drawn => draft.refuse(key, ROWS),
            Some(_) => {
                if !draft.change(path, |files| limited(files, limit)) {
                    draft.note(key, format!("dropped: {path} is given by itself"));
                }
            }
            None => draft.note(key, format!("dropped: there is no {path} that it limits")),
        }
    }
}

/// The files, or a set of them, with a limit.
fn limited(files: &Value, limit: u64) -> Value {
    match files.as_array().map(Vec::as_slice) {
        Some([Value::Object(set)]) => {
            let mut set = set.clone();
            set.insert("limit".to_owned(), limit.into());
            json!([set])
        }
        _ => json!([{"path": files, "limit": limit}]),
    }
}
