//! Arguments of `run_summarization` and `run_translation`.

use super::Arguments;
use crate::draft::Draft;
use crate::rule::{Rule, Table};

pub(crate) const ARGUMENTS: Table = &[
    ("text_column", Rule::Own),
    ("summary_column", Rule::Own),
    ("source_lang", Rule::Own),
    ("target_lang", Rule::Own),
    ("source_prefix", Rule::Field("data.source_prefix")),
    ("max_source_length", Rule::Field("data.max_source_length")),
    ("max_target_length", Rule::Field("data.max_target_length")),
    ("val_max_target_length", Rule::Own),
    ("num_beams", Rule::Field("train.generation_num_beams")),
    ("ignore_pad_token_for_loss", Rule::Field("data.ignore_pad_token_for_loss")),
    (
        "resize_position_embeddings",
        Rule::Refused("the model's positions stay as they are; use data.max_source_length"),
    ),
    (
        "forced_bos_token",
        Rule::Refused("set train.generation_config.forced_bos_token_id to the token's id"),
    ),
    ("lang", Rule::Refused("languages are set in translations, by source_lang and target_lang")),
];

/// Columns of data sets, as the script knows them.
const COLUMNS: &[(&str, [&str; 2])] = &[
    ("cnn_dailymail", ["article", "highlights"]),
    ("xsum", ["document", "summary"]),
    ("samsum", ["dialogue", "summary"]),
    ("big_patent", ["description", "abstract"]),
    ("multi_news", ["document", "summary"]),
    ("billsum", ["text", "summary"]),
    ("gigaword", ["document", "summary"]),
    ("scientific_papers", ["article", "abstract"]),
];

/// The script's default of max_source_length.
const MAX_SOURCE_LENGTH: u32 = 1024;

pub(super) fn read(script: &str, arguments: &Arguments, draft: &mut Draft) {
    match script {
        "run_translation" => languages(arguments, draft),
        _ => summary_columns(arguments, draft),
    }
    draft.imply("data.max_source_length", MAX_SOURCE_LENGTH);
    target_lengths(arguments, draft);
}

/// A row has both languages in the column `translation`.
fn languages(arguments: &Arguments, draft: &mut Draft) {
    for key in ["source_lang", "target_lang"] {
        match arguments.text(key) {
            Some(code) => draft.set(&format!("data.{key}"), code.into(), key),
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
    let known = COLUMNS.iter().find(|(known, _)| *known == name).map(|(_, columns)| columns);
    let keys = [("text_column", "data.source"), ("summary_column", "data.target")];
    for (index, (key, path)) in keys.into_iter().enumerate() {
        match (arguments.text(key), known) {
            (Some(column), _) => draft.set(path, column.into(), key),
            (None, Some(columns)) => draft.set(path, columns[index].into(), ""),
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
