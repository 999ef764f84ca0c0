//! SageMaker's hyperparameters.

use traind_convert::Source;

use super::{check, check_refused, text};

const GIVEN: [(&str, &str); 3] = [
    ("data.train", "train.csv"),
    ("data.validation", "dev.csv"),
    ("model.task", "sequence-classification"),
];

#[test]
fn a_notebooks_hyperparameters() {
    let settings = r#"{"hyperparameters": {"epochs": 1, "train_batch_size": "32", "eval_batch_size": 64,
        "model_name": "distilbert/distilbert-base-uncased", "learning_rate": "3e-5", "fp16": "True"}}"#;
    let expect = [
        ("train.num_train_epochs", "1"),
        ("train.per_device_train_batch_size", "32"),
        ("train.per_device_eval_batch_size", "64"),
        ("train.learning_rate", "3e-5"),
        ("train.fp16", "true"),
    ];
    let mut given = GIVEN.to_vec();
    given.push(("model.num_labels", "2"));
    check(text(Source::SageMaker, settings, &given), &expect, &[]);
}

#[test]
fn a_training_jobs_description_names_the_script() {
    let settings = r#"{"HyperParameters": {"sagemaker_program": "\"run_glue.py\"", "model_name_or_path": "\"x/y\"",
        "train_file": "\"/opt/ml/input/data/train/train.csv\"", "output_dir": "\"/opt/ml/model\"",
        "do_train": "true", "max_seq_length": "128", "sagemaker_region": "\"eu-west-1\""}}"#;
    let given = [("data.train", "train.csv")];
    let expect = [("model.task", "sequence-classification"), ("data.max_length", "128")];
    let notes = ["output_dir", "sagemaker_region", "data.text"];
    check(text(Source::SageMaker, settings, &given), &expect, &notes);
    check_refused(text(Source::SageMaker, settings, &[]), &[("train_file", "--set")]);
}

#[test]
fn a_training_jobs_buckets_are_folders() {
    let settings = r#"{"TrainingJobName": "tweets", "OutputDataConfig": {"S3OutputPath": "s3://b/models/"},
        "CheckpointConfig": {"S3Uri": "s3://b/checkpoints"},
        "HyperParameters": {"model_name_or_path": "\"x/y\"", "num_labels": "2"}}"#;
    let expect = [
        ("output_dir", "s3://b/models/tweets"),
        ("checkpoint_dir", "s3://b/checkpoints"),
        ("train.resume_from_checkpoint", "auto"),
    ];
    check(text(Source::SageMaker, settings, &GIVEN), &expect, &[]);
}

#[test]
fn a_script_that_is_not_supported_is_refused() {
    let settings =
        r#"{"hyperparameters": {"sagemaker_program": "run_swag.py", "model_name_or_path": "x/y"}}"#;
    check_refused(
        text(Source::SageMaker, settings, &GIVEN),
        &[("sagemaker_program", "multiple choice")],
    );
}

#[test]
fn summaries_are_read_as_on_a_command_line() {
    let settings = r#"{"hyperparameters": {"sagemaker_program": "run_summarization.py", "model_name_or_path": "\"google-t5/t5-small\"",
        "dataset_name": "samsum", "predict_with_generate": true, "per_device_train_batch_size": 4,
        "output_dir": "/opt/ml/model"}}"#;
    let expect =
        [("model.task", "seq2seq-lm"), ("data.source", "dialogue"), ("data.target", "summary")];
    let given = [("data.train", "knkarthick/samsum")];
    check(text(Source::SageMaker, settings, &given), &expect, &["output_dir"]);
}

#[test]
fn columns_are_read_as_on_a_command_line() {
    let settings = r#"{"hyperparameters": {"sagemaker_program": "run_ner.py", "model_name_or_path": "x/y",
        "dataset_name": "conll2003", "do_train": true, "label_column_name": "pos_tags"}}"#;
    let expect = [
        ("data.train", "[\"hf://datasets/eriktks/conll2003\"]"),
        ("data.tokens", "tokens"),
        ("data.labels", "pos_tags"),
    ];
    check(text(Source::SageMaker, settings, &[]), &expect, &[]);
    let glue = r#"{"hyperparameters": {"sagemaker_program": "run_glue.py", "model_name_or_path": "x/y",
        "task_name": "mrpc", "do_train": true}}"#;
    let expect = [("data.text", "sentence1"), ("model.num_labels", "2")];
    check(text(Source::SageMaker, glue, &[]), &expect, &[]);
}

#[test]
fn another_scripts_data_set_and_columns_are_not_lost() {
    let settings = r#"{"hyperparameters": {"model_name": "x/y", "dataset_name": "imdb", "num_labels": 2,
        "text_column_name": "review", "label_column_name": "stars"}}"#;
    let expect = [
        ("data.train", "[\"hf://datasets/stanfordnlp/imdb\"]"),
        ("data.text", "review"),
        ("data.label", "stars"),
    ];
    let task = ("model.task", "sequence-classification");
    check(text(Source::SageMaker, settings, &[task]), &expect, &[]);
    let unknown =
        settings.replace("imdb", "my_reviews").replace("num_labels\": 2", "task_name\": \"sst2\"");
    check_refused(
        text(Source::SageMaker, &unknown, &[task]),
        &[("task_name", "data.train"), ("dataset_name", "org/name")],
    );
}
