//! Jobs made of other tools' settings, and of few words.

use std::fs;
use std::path::Path;

use traind_tests::{Draft, Host};

/// `JOB_FILE` as a user of transformers' example script has it.
const COMMAND: &str = "run_classification.py --model_name_or_path ./model --train_file train.csv \
    --validation_file validation.parquet --do_train --do_eval --num_train_epochs 2 \
    --per_device_train_batch_size 8 --learning_rate 5e-3 --logging_steps 1 --max_seq_length 32 \
    --overwrite_output_dir --output_dir out-converted";

#[tokio::test(flavor = "multi_thread")]
async fn a_converted_command_line_trains_the_weights_of_the_job_file() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job");
    host.complete(&draft).await;
    let set = ["--set", "data.label_map=[animal, fruit, tool]", "--output", "converted.yaml", "--"];
    let arguments =
        [&["convert"], set.as_slice(), &COMMAND.split(' ').collect::<Vec<_>>()].concat();
    let arguments: Vec<&str> = arguments.into_iter().filter(|word| !word.is_empty()).collect();
    let said = host.cli(draft.folder(), &arguments);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(!said.stderr.contains("overwrite_output_dir"), "{}", said.stderr);
    let converted = fs::read_to_string(draft.path("converted.yaml")).unwrap();
    assert!(converted.contains("overwrite_output_dir: true"), "{converted}");

    let said = host.cli(draft.folder(), &["submit", "converted.yaml", "--watch"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let weights = |folder: &str| fs::read(draft.path(folder).join("model.safetensors")).unwrap();
    assert!(weights("out-converted") == weights("out"), "the weights differ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_file_that_init_wrote_trains() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job");
    let said = host.cli(draft.folder(), &["init", "model", "train.csv", "--output", "first.yaml"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let written = fs::read_to_string(draft.path("first.yaml")).unwrap();
    let printed = host.cli(draft.folder(), &["init", "model", "train.csv", "--output", "-"]);
    assert_eq!((printed.code, printed.stdout), (Some(0), written));
    let again = host.cli(draft.folder(), &["init", "model", "train.csv", "--output", "first.yaml"]);
    assert_eq!(again.code, Some(1), "a job file is not overwritten");
    let said = host.cli(draft.folder(), &["submit", "first.yaml", "--watch"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let trained = draft.path("out/sequence-classification");
    assert!(Path::new(&trained).join("model.safetensors").is_file());
}
