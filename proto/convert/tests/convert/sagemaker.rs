//! SageMaker's hyperparameters.

use serde_json::{Map, Value, json};
use traind_convert::{Source, convert};

use super::{check, check_refused, text};

/// Arguments of the estimator with the job file that it and `traind convert` make of them. The tests of the
/// estimator in Python read the same file.
const CASES: &str = include_str!("files/sagemaker/cases.json");

#[test]
fn arguments_become_the_job_file_that_the_estimator_submits() {
    let cases: Vec<Map<String, Value>> = serde_json::from_str(CASES).unwrap();
    for case in cases {
        let mut settings = case["arguments"].clone();
        let about = case["about"].as_str().unwrap();
        let arguments = settings.as_object_mut().unwrap();
        arguments.entry("hyperparameters").or_insert_with(|| json!({}));
        arguments.extend(case.get("inputs").map(|inputs| ("inputs".to_owned(), inputs.clone())));
        let converted = convert(Some(Source::SageMaker), &settings.to_string(), &[]);
        match (converted, case.get("job"), case.get("refused").and_then(Value::as_str)) {
            (Ok(converted), Some(expected), None) => {
                let mut job: Value = serde_saphyr::from_str(&converted.job_file).unwrap();
                let [name, _] =
                    ["name", "output_dir"].map(|key| job.as_object_mut().unwrap().remove(key));
                assert!(case.get("name").is_none_or(|expected| Some(expected) == name.as_ref()));
                assert_eq!(job, *expected, "{about}\n{}", converted.job_file);
            }
            (Err(refused), None, Some(sentence)) => {
                assert!(refused.to_string().contains(sentence), "{about}: {refused}");
            }
            (converted, ..) => panic!("{about}: {converted:?}"),
        }
    }
}

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

/// Names that no tool's files have, in a file that does not say whose it is.
#[test]
fn a_notebooks_hyperparameters_are_known_by_their_names() {
    let settings =
        r#"{"epochs": 1, "train_batch_size": 32, "model_name": "x/y", "learning_rate": 5e-5}"#;
    let mut given = GIVEN.to_vec();
    given.push(("model.num_labels", "2"));
    let given: Vec<(String, String)> =
        given.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    check(convert(None, settings, &given), &[("train.num_train_epochs", "1")], &[]);
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
    let given = [("data.train", "train.csv")];
    let sentence = [("sagemaker_program", "multiple choice")];
    check_refused(text(Source::SageMaker, settings, &given), &sentence);
    // With a task, the script says nothing.
    check(text(Source::SageMaker, settings, &GIVEN), &[], &["sagemaker_program"]);
}

#[test]
fn summaries_are_read_as_on_a_command_line() {
    let settings = r#"{"hyperparameters": {"sagemaker_program": "run_summarization.py", "model_name_or_path": "\"google-t5/t5-small\"",
        "dataset_name": "samsum", "predict_with_generate": true, "per_device_train_batch_size": 4,
        "output_dir": "/opt/ml/model"}}"#;
    let expect =
        [("model.task", "seq2seq-lm"), ("data.source", "dialogue"), ("data.target", "summary")];
    let given = [("data.train", "knkarthick/samsum")];
    check(text(Source::SageMaker, settings, &given), &expect, &["output_dir", "do_train"]);
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
        settings.replace("imdb", "my_reviews").replace("num_labels\": 2", "task_name\": \"ax\"");
    check_refused(
        text(Source::SageMaker, &unknown, &[task]),
        &[("task_name", "none of GLUE's tasks"), ("dataset_name", "org/name")],
    );
}

/// Instance, count, limits, spot and channels of a description were once lost without a note.
#[test]
fn a_training_jobs_description_is_read_whole() {
    let settings = r#"{"TrainingJobName": "tweets", "RoleArn": "arn:aws:iam::1:role/x", "TrainingJobStatus": "Completed",
        "ResourceConfig": {"InstanceType": "ml.trn1.32xlarge", "InstanceCount": 2, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200},
        "EnableManagedSpotTraining": true, "OutputDataConfig": {"S3OutputPath": "s3://b/models"},
        "InputDataConfig": [
            {"ChannelName": "train", "DataSource": {"S3DataSource": {"S3Uri": "s3://b/train/"}}},
            {"ChannelName": "test", "DataSource": {"S3DataSource": {"S3Uri": "s3://b/test.csv"}}}],
        "HyperParameters": {"model_name": "\"x/y\"", "num_labels": "2"}}"#;
    let task = [("model.task", "sequence-classification"), ("resources.engine", "slurm")];
    let expect = [
        ("resources.platform", "neuron"),
        ("resources.cores", "32"),
        ("resources.hosts", "2"),
        ("resources.max_run_seconds", "3600"),
        ("resources.max_wait_seconds", "3600"),
        ("output_dir", "s3://b/models/tweets"),
        ("data.train", "['s3://b/train/*.arrow']"),
        ("data.validation", "['s3://b/test.csv']"),
    ];
    let notes = [
        "StoppingCondition.MaxWaitTimeInSeconds",
        "EnableManagedSpotTraining",
        "RoleArn",
        "inputs.train",
    ];
    check(text(Source::SageMaker, settings, &task), &expect, &notes);
    let unknown = settings.replace("trn1.32xlarge", "q9.large").replace("RoleArn", "Roles");
    let sentences =
        [("ResourceConfig.InstanceType", "resources.platform"), ("Roles", "not known here")];
    check_refused(text(Source::SageMaker, &unknown, &task), &sentences);
}

#[test]
fn files_of_channels_are_in_their_buckets() {
    let settings = r#"{"InputDataConfig": [
            {"ChannelName": "train", "DataSource": {"S3DataSource": {"S3Uri": "s3://b/data"}}}],
        "HyperParameters": {"sagemaker_program": "run_mlm.py", "model_name_or_path": "x/y", "do_train": "true",
        "train_file": "/opt/ml/input/data/train/a.txt"}}"#;
    check(text(Source::SageMaker, settings, &[]), &[("data.train", "['s3://b/data/a.txt']")], &[]);
}

#[test]
fn arguments_beside_the_hyperparameters_are_read() {
    let settings = r#"{"hyperparameters": {"model_name": "x/y", "num_labels": 2}, "instance_type": "ml.g5.12xlarge",
        "instance_count": 1, "max_run": 60, "output_path": "s3://b/models", "base_job_name": "tweets"}"#;
    let expect = [
        ("resources.platform", "cuda"),
        ("resources.cores", "4"),
        ("resources.max_run_seconds", "60"),
        ("output_dir", "s3://b/models/tweets"),
    ];
    check(text(Source::SageMaker, settings, &GIVEN), &expect, &[]);
}

/// The service hands the library's parameters to the container as JSON in text.
#[test]
fn parameters_of_the_model_parallel_library_are_fields() {
    let settings = r#"{"HyperParameters": {"model_name": "\"x/y\"", "num_labels": "2", "strategy": "\"steps\"",
        "steps": "50", "sagemaker_mpi_num_of_processes_per_host": "8", "sagemaker_mpi_enabled": "true",
        "mp_parameters": "{\"partitions\": 2, \"microbatches\": \"4\", \"ddp\": true, \"horovod\": false}"},
        "ResourceConfig": {"InstanceType": "ml.p3.2xlarge"}}"#;
    let expect = [
        ("parallel.pipeline", "2"),
        ("parallel.microbatches", "4"),
        ("resources.cores", "8"),
        ("train.eval_steps", "50"),
        ("train.save_strategy", "steps"),
    ];
    let notes = ["mp_parameters.ddp", "sagemaker_mpi_enabled"];
    check(text(Source::SageMaker, settings, &GIVEN), &expect, &notes);
}

#[test]
fn a_distribution_that_is_not_known_is_refused() {
    let settings = r#"{"hyperparameters": {"model_name": "x/y", "num_labels": 2}, "distribution": {
        "parameter_server": {"enabled": true},
        "smdistributed": {"modelparallel": {"enabled": true, "parameters": {
            "horovod": true, "sharded_data_parallel_degree": true, "partition": 2}}}}}"#;
    let expect = [
        ("distribution.parameter_server", "leave it out"),
        ("distribution.smdistributed.modelparallel.parameters.horovod", "needs no library"),
        ("sharded_data_parallel_degree", "number of GPUs"),
        ("distribution.smdistributed.modelparallel.parameters.partition", "not known here"),
    ];
    let refused = text(Source::SageMaker, settings, &GIVEN).unwrap_err();
    let keys: std::collections::BTreeSet<&str> =
        refused.notes.iter().map(|note| note.key.as_str()).collect();
    assert_eq!(keys, expect.iter().map(|(key, _)| *key).collect(), "{refused}");
    for (key, sentence) in expect {
        let found = refused.notes.iter().find(|note| note.key == key).unwrap();
        assert!(found.text.contains(sentence), "{refused}");
    }
}

/// A misspelled `enabled` once switched the library off without a note, with all that is inside.
#[test]
fn mistakes_in_a_distribution_are_refused() {
    let check_distribution = |distribution: &str, expect: &[(&str, &str)]| {
        let settings = format!(
            r#"{{"hyperparameters": {{"model_name": "x/y", "num_labels": 2}}, "instance_type": "ml.p4d.24xlarge",
                "distribution": {distribution}}}"#
        );
        check_refused(text(Source::SageMaker, &settings, &GIVEN), expect);
    };
    let library = "distribution.smdistributed.modelparallel";
    check_distribution(
        r#"{"smdistributed": {"modelparallel": {"enabld": true, "parameters": {"partitoins": 4, "microbatches": "x"}}},
            "mpi": {"enabled": true, "process_per_host": 4}}"#,
        &[
            (&format!("{library}.enabld"), "did you mean `enabled`?"),
            (&format!("{library}.parameters.partitoins"), "did you mean `partitions`?"),
            ("distribution.mpi.process_per_host", "did you mean `processes_per_host`?"),
            (&format!("{library}.parameters.microbatches"), "must be "),
        ],
    );
    check_distribution(
        r#"{"smdistribute": {}, "smdistributed": {"modelparalel": {"enabled": true}}, "mpi": {"enabled": "maybe"}}"#,
        &[
            ("distribution.smdistribute", "did you mean `smdistributed`?"),
            ("distribution.smdistributed.modelparalel", "did you mean `modelparallel`?"),
            ("distribution.mpi.enabled", "must be true or false, not maybe"),
        ],
    );
    check_distribution(
        r#"{"smdistributed": {"modelparallel": {"enabled": true, "parameters": {"offload_activations": "maybe"}}},
            "mpi": {"processes_per_host": 4}}"#,
        &[
            (&format!("{library}.parameters.offload_activations"), "must be true or false"),
            ("distribution.mpi", "not `enabled: true`"),
        ],
    );
}

#[test]
fn a_misspelled_argument_of_a_channel_is_refused() {
    let settings = r#"{"hyperparameters": {"model_name": "x/y", "num_labels": 2},
        "inputs": {"train": {"s3_data": "s3://b/train", "content_typ": "text/csv"}}}"#;
    let expect = [("inputs.train.content_typ", "did you mean `content_type`?")];
    check_refused(text(Source::SageMaker, settings, &GIVEN), &expect);
}
