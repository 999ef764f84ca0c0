//! Model and data arguments of transformers' example scripts.

use serde_json::{Map, Value};

use crate::rule::{Rule, Table, ValueProblem};
use crate::values::{parse, shown};

const PREPARED: &str = "rows are prepared once, on all processors of the host";
const DTYPE: &str = "trained weights are float32; bf16 computes in bfloat16, and model.dtype is the \
    type of frozen ones";
const ROWS: &str = "takes the first rows of one split; give that split a limit, such as --set \
    'data.train=[{path: a.csv, limit: 1000}]', or use max_steps, and leave the argument out";

const LANGUAGES: &str = "a job has one configuration of a data set; give the files of each language \
    as data.train and data.validation by --set, and leave the argument out";

pub(crate) const MODEL: Table = &[
    ("model_name_or_path", Rule::Field("model.name_or_path")),
    ("model_revision", Rule::Field("model.revision")),
    ("config_overrides", Rule::Changed("model.config_overrides", overrides, "")),
    (
        "config_name",
        Rule::Refused(
            "give a folder with config.json and the tokenizer as model.name_or_path, and \
        model.from_config: true to begin with random weights",
        ),
    ),
    ("tokenizer_name", Rule::Own),
    (
        "model_type",
        Rule::Refused(
            "give a folder with config.json and the tokenizer as model_name_or_path, and \
        model.from_config: true to begin with random weights",
        ),
    ),
    ("cache_dir", Rule::Dropped("the daemon's cache holds what is fetched")),
    ("use_fast_tokenizer", Rule::Dropped("all tokenizers are fast ones")),
    ("token", Rule::Dropped("the daemon's HF_TOKEN is used")),
    ("use_auth_token", Rule::Dropped("the daemon's HF_TOKEN is used")),
    (
        "trust_remote_code",
        Rule::Dropped("no code of models is run; a model that needs its own is refused"),
    ),
    ("ignore_mismatched_sizes", Rule::Field("model.ignore_mismatched_sizes")),
    ("torch_dtype", Rule::Dropped(DTYPE)),
    ("dtype", Rule::Dropped(DTYPE)),
    ("low_cpu_mem_usage", Rule::Dropped("weights are mapped from their file")),
    ("attn_implementation", Rule::Dropped("attention is part of the compiled step")),
    ("do_lower_case", Rule::Dropped("the tokenizer says it")),
];

pub(crate) const DATA: Table = &[
    ("task_name", Rule::Own),
    ("dataset_name", Rule::Own),
    ("dataset_config_name", Rule::Field("data.dataset_config_name")),
    ("dataset_config", Rule::Field("data.dataset_config_name")),
    ("language", Rule::Refused(LANGUAGES)),
    ("train_language", Rule::Refused(LANGUAGES)),
    ("train_file", Rule::Field("data.train")),
    ("validation_file", Rule::Field("data.validation")),
    ("test_file", Rule::Field("data.test")),
    ("text_column_name", Rule::Own),
    ("text_column_names", Rule::Own),
    ("label_column_name", Rule::Own),
    ("max_seq_length", Rule::Field("data.max_length")),
    ("max_length", Rule::Field("data.max_length")),
    ("pad_to_max_length", Rule::Field("data.pad_to_max_length")),
    ("overwrite_cache", Rule::Dropped("cached rows are found by their content")),
    ("preprocessing_num_workers", Rule::Dropped(PREPARED)),
    ("streaming", Rule::Dropped(PREPARED)),
    ("max_train_samples", Rule::Refused(ROWS)),
    ("max_eval_samples", Rule::Refused(ROWS)),
    ("max_predict_samples", Rule::Refused(ROWS)),
    ("shuffle_train_dataset", Rule::Dropped("train_sampling_strategy says the order of rows")),
    ("shuffle_seed", Rule::Field("train.data_seed")),
    ("validation_split_percentage", Rule::Own),
    ("label_all_tokens", Rule::Field("data.label_all_tokens")),
    ("return_entity_level_metrics", Rule::Dropped("entity metrics are those of all entities")),
    ("doc_stride", Rule::Field("data.doc_stride")),
    ("n_best_size", Rule::Field("data.n_best_size")),
    ("max_answer_length", Rule::Field("data.max_answer_length")),
    ("version_2_with_negative", Rule::Field("data.version_2_with_negative")),
    ("null_score_diff_threshold", Rule::Field("data.null_score_diff_threshold")),
    ("block_size", Rule::Field("data.block_size")),
    ("line_by_line", Rule::Field("data.line_by_line")),
    ("mlm_probability", Rule::Field("data.mlm_probability")),
    ("keep_linebreaks", Rule::Field("data.keep_linebreaks")),
    ("do_regression", Rule::Changed("model.problem_type", regression, "")),
    ("metric_name", Rule::Dropped("all metrics of the task are computed")),
    (
        "remove_splits",
        Rule::Refused(
            "name the files of the splits that stay by train_file, validation_file and test_file, and leave it out",
        ),
    ),
    ("remove_columns", Rule::Dropped("columns without a use are not read")),
];

/// `a=1,b=x` as a mapping.
fn overrides(value: &Value) -> Result<Value, ValueProblem> {
    let text = shown(value);
    let pairs = text.split(',').map(|pair| {
        let not_a_pair = || ValueProblem::NotAPair { pair: pair.to_owned() };
        let (key, value) = pair.split_once('=').ok_or_else(not_a_pair)?;
        Ok((key.trim().to_owned(), parse(value.trim())))
    });
    pairs.collect::<Result<Map<_, _>, ValueProblem>>().map(Value::Object)
}

fn regression(value: &Value) -> Result<Value, ValueProblem> {
    let problem =
        if value == &Value::Bool(true) { "regression" } else { "single_label_classification" };
    Ok(problem.into())
}
