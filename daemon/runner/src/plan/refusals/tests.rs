//! Faults of data and settings that a run would have are found by the plan.

use std::fs;

use serde_json::{Value, json};
use traind_job_file::commands::PlanRequest;

use crate::plan::plan;

const CONFIG: &str = r#"{"model_type": "bert", "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 1, "intermediate_size": 8, "max_position_embeddings": 16, "type_vocab_size": 2}"#;

/// Plans a job in a folder with `files`, and compares the refusal, of which `expect` has the field and some words.
fn check(files: &[(&str, &str)], edit: impl Fn(&mut Value), expect: Option<(&str, &str)>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("config.json"), CONFIG).unwrap();
    for (name, content) in files {
        fs::create_dir_all(path(name).parent().unwrap()).unwrap();
        fs::write(path(name), content).unwrap();
    }
    let mut job = json!({
        "name": "planned",
        "model": {"name_or_path": folder.path(), "task": "sequence-classification"},
        "data": {"train": "train.csv"},
        "resources": {"cores": 1},
        "output_dir": "/out",
    });
    edit(&mut job);
    for split in ["train", "validation", "test"] {
        if let Some(name) = job["data"][split].as_str() {
            job["data"][split] = json!(path(name));
        }
    }
    let request = PlanRequest {
        job: serde_json::from_value(job).unwrap(),
        bytes_per_core_max: None,
        may_fetch: true,
        device: String::new(),
        instructions_max: None,
        with_effects: false,
        search: None,
    };
    let found = plan(&request).err().map(|error| crate::plan::violation(&error).unwrap());
    match (&found, expect) {
        (None, None) => {}
        (Some(found), Some((field, words))) if found.field == field => {
            assert!(found.description.contains(words), "{}", found.description);
        }
        _ => panic!("{found:?}, expected {expect:?}"),
    }
}

const ROWS: (&str, &str) = ("train.csv", "text,label\na,0\nb,1\n");

#[test]
fn data_that_a_run_could_not_read_are_found() {
    let none = |_: &mut Value| {};
    check(&[ROWS], none, None);
    // Not there yet.
    check(&[], none, None);
    check(&[("train.csv", "")], none, Some(("data.train", "train.csv: the file is empty")));
    check(&[("train.csv", "text,label\n")], none, Some(("data.train", "train.csv: no rows")));
    let other = |key: &'static str, value: &'static str| {
        move |job: &mut Value| job["data"][key] = value.into()
    };
    let lacking = r#"no column "body"; it has text, label (data.text names the column)"#;
    check(&[ROWS], other("text", "body"), Some(("data.train", lacking)));
    check(&[ROWS], other("label", "y"), Some(("data.train", "(data.label names the column)")));
    let format = [ROWS, ("rows.xml", "<a/>")];
    check(&format, other("train", "rows.xml"), Some(("data.train", "unknown data format")));
    check(&[ROWS], other("encoding", "klingon"), Some(("data.encoding", "klingon")));
    let validation = [ROWS, ("v.jsonl", "{\"text\": \"a\"}\n")];
    let evaluated = |job: &mut Value| {
        job["data"]["validation"] = "v.jsonl".into();
        job["train"]["eval_strategy"] = "epoch".into();
    };
    check(&validation, evaluated, Some(("data.validation", r#"no column "label""#)));
    let files = [("rows/a.csv", "text,label\na,0\n"), ("rows/b.csv", "text\na\n")];
    check(&files, other("train", "rows/*.csv"), Some(("data.train", "which")));
    let dropped = |job: &mut Value| job["data"]["columns"] = json!({"drop": ["label"]});
    check(&[ROWS], dropped, Some(("data.train", r#"no column "label"; it has text"#)));
    check(&[("c/x/a.txt", "b")], other("train", "c"), None);
    check(&[("c/a.txt", "b")], other("train", "c"), Some(("data.train", "is a folder")));
}

/// Another job may write the file before this one starts.
#[test]
fn data_of_a_job_after_another_are_left_to_the_run() {
    let after = |job: &mut Value| job["resources"]["after"] = "other".into();
    check(&[("train.csv", "other\n1\n")], after, None);
}

#[test]
fn rows_to_predict_need_no_labels() {
    let predicted = |job: &mut Value| {
        job["data"]["test"] = "test.csv".into();
        job["train"]["do_predict"] = true.into();
    };
    check(&[ROWS, ("test.csv", "text\na\n")], predicted, None);
    let expect = Some(("data.test", r#"no column "text""#));
    check(&[ROWS, ("test.csv", "body\na\n")], predicted, expect);
}

#[test]
fn metrics_that_no_evaluation_computes_are_found() {
    let metric = |name: &'static str| {
        move |job: &mut Value| {
            job["data"]["validation"] = "train.csv".into();
            job["train"] = json!({"eval_strategy": "epoch", "metric_for_best_model": name});
        }
    };
    for name in ["loss", "accuracy", "eval_f1", "eval_samples_per_second"] {
        check(&[ROWS], metric(name), None);
    }
    let field = "train.metric_for_best_model";
    check(&[ROWS], metric("rouge"), Some((field, r#"names "rouge": evaluations compute"#)));
}

#[test]
fn vocabularies_larger_than_the_embedding_are_found() {
    let tokens = |count: usize| {
        let vocab: serde_json::Map<_, _> =
            (0..count).map(|id| (id.to_string(), json!(id))).collect();
        json!({"model": {"type": "WordLevel", "vocab": vocab}}).to_string()
    };
    check(&[ROWS, ("tokenizer.json", &tokens(20))], |_| {}, None);
    let larger = [ROWS, ("tokenizer.json", &tokens(21))];
    let words = "the tokenizer has 21 tokens and the embedding 20 rows";
    check(&larger, |_| {}, Some(("model.name_or_path", words)));
    let given = |job: &mut Value| {
        job["model"]["from_config"] = true.into();
        job["model"]["config_overrides"] = json!({"vocab_size": 12});
    };
    let words = "the embedding 12 rows";
    check(&larger, given, Some(("model.config_overrides", words)));
}
