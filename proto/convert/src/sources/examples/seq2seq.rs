//! Arguments of `run_summarization` and `run_translation`.

use super::Arguments;
use crate::draft::Draft;
use crate::shared::TABLES;

pub(super) fn read(script: &str, arguments: &Arguments, draft: &mut Draft) {
    match script {
        "run_translation" => languages(arguments, draft),
        _ => summary_columns(arguments, draft),
    }
    target_lengths(arguments, draft);
}

/// Reads the columns, languages and lengths that another script's arguments name.
pub(super) fn read_given(arguments: &Arguments, draft: &mut Draft) {
    for (key, path) in COLUMNS.into_iter().chain(LANGUAGES) {
        if let Some(name) = arguments.text(key) {
            draft.set(path, name.into(), key);
        }
    }
    target_lengths(arguments, draft);
}

const COLUMNS: [(&str, &str); 2] =
    [("text_column", "data.source"), ("summary_column", "data.target")];
const LANGUAGES: [(&str, &str); 2] =
    [("source_lang", "data.source_lang"), ("target_lang", "data.target_lang")];

/// A row has both languages in the column `translation`.
fn languages(arguments: &Arguments, draft: &mut Draft) {
    for (key, path) in LANGUAGES {
        match arguments.text(key) {
            Some(code) => draft.set(path, code.into(), key),
            None => draft.refuse(
                key,
                "says which text of `translation` is read; give a language of the rows, such as en",
            ),
        }
    }
}

fn summary_columns(arguments: &Arguments, draft: &mut Draft) {
    let data_set = arguments.text("dataset_name").unwrap_or_default();
    let name = data_set.rsplit('/').next().unwrap_or_default();
    let known = TABLES.summaries.get(name);
    for (index, (key, path)) in COLUMNS.into_iter().enumerate() {
        match (arguments.text(key), known) {
            (Some(column), _) => draft.set(path, column.into(), key),
            (None, Some(columns)) => draft.set(path, columns[index].as_str().into(), ""),
            (None, None) if draft.get(path).is_some() => {}
            (None, None) => draft.refuse(
                key,
                format!(
                    "the script takes the file's column {index}; give its name by --set {path}=…"
                ),
            ),
        }
    }
}

/// The script's default of max_target_length.
const MAX_TARGET_LENGTH: u64 = 128;

/// Texts are generated with the length of the targets to evaluate on, whose default is that of training.
fn target_lengths(arguments: &Arguments, draft: &mut Draft) {
    let training = arguments.number("max_target_length").map_or(MAX_TARGET_LENGTH, |it| it as u64);
    let evaluation = arguments.number("val_max_target_length").map(|length| length as u64);
    if arguments.is_on("predict_with_generate") {
        draft.imply("train.generation_max_length", evaluation.unwrap_or(training));
    }
    if evaluation.is_some_and(|length| length != training) {
        draft.note(
            "val_max_target_length",
            "the most tokens of a generated text; targets are cut at max_target_length throughout",
        );
    }
}
