//! Every field of transformers' TrainingArguments is a key of the job file or in its table.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::path::Path;

use serde_json::{Map, Value};
use traind_job_file::{JobFile, Treatment, training_argument};

/// A key of another section, and another name of a key.
const OTHERWISE: [&str; 2] = ["output_dir", "activation_checkpointing"];

/// Names with defaults, as `scripts/fixtures/training_arguments.py` lists them.
fn transformers() -> Map<String, Value> {
    fixture()["defaults"].as_object().unwrap().clone()
}

fn fixture() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/training_arguments.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn parse(train: &str) -> Result<Vec<String>, Vec<String>> {
    let yaml = format!(
        "{{name: a, model: {{name_or_path: ./a, task: sequence-classification, num_labels: 2}}, \
         data: {{train: a.csv, validation: b.csv}}, output_dir: out, train: {{{train}}}}}"
    );
    match JobFile::parse(&yaml, Path::new("/")) {
        Ok(parsed) => Ok(parsed.warnings.iter().map(ToString::to_string).collect()),
        Err(violations) => Err(violations.iter().map(ToString::to_string).collect()),
    }
}

#[test]
fn every_field_is_a_key_or_in_the_table_with_its_default() {
    let keys: Vec<String> = traind_job_file::fields().into_iter().map(|field| field.path).collect();
    let all = transformers();
    assert!(all.len() > 100, "{}", all.len());
    for (name, default) in &all {
        let known = format!("train.{name}");
        let is_key = keys.contains(&known) || OTHERWISE.contains(&name.as_str());
        let Some(argument) = training_argument(name) else {
            assert!(is_key, "{name} is no key and not in the table");
            continue;
        };
        assert!(!is_key, "{name} is a key and in the table too");
        assert!(argument.is_default(&default.to_string()), "{name}: {default}");
    }
}

#[test]
fn defaults_say_nothing() {
    for (name, default) in &transformers() {
        if training_argument(name).is_some() {
            assert_eq!(parse(&format!("{name}: {default}")), Ok(Vec::new()), "{name}");
        }
    }
}

#[test]
fn other_values_are_warned_about_or_refused_by_name() {
    for name in transformers().keys() {
        let Some(argument) = training_argument(name) else { continue };
        let said = parse(&format!("{name}: something"));
        let (texts, reason) = match argument.treatment {
            Treatment::NoEffect(reason) => (said.unwrap(), reason),
            Treatment::Always(_) => {
                assert_eq!(said, Ok(Vec::new()), "{name}");
                continue;
            }
            Treatment::Refused(advice) | Treatment::Only(_, advice) => (said.unwrap_err(), advice),
        };
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].contains(&format!("train.{name}: ")), "{texts:?}");
        assert!(texts[0].ends_with(reason), "{texts:?}");
    }
}

#[test]
fn every_optimizer_is_accepted_or_refused_with_another() {
    for name in fixture()["optimizers"].as_array().unwrap() {
        if let Err(refused) = parse(&format!("optim: {name}")) {
            assert!(refused[0].contains("is not supported: "), "{refused:?}");
        }
    }
    let refused = parse("optim: paged_adamw_8bit").unwrap_err();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].contains("train.optim: `paged_adamw_8bit`"), "{refused:?}");
    assert!(refused[0].contains("use adamw_torch"), "{refused:?}");
}

#[test]
fn label_names_are_those_of_models() {
    assert_eq!(parse("label_names: [start_positions, end_positions]"), Ok(Vec::new()));
    let refused = parse("label_names: [labels, stars]").unwrap_err();
    assert!(refused[0].contains("data.label"), "{refused:?}");
}
