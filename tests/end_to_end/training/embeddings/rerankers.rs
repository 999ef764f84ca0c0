//! Scored passages beside sentence-transformers': `scripts/fixtures/rerankers.py` writes the rows, and the losses and
//! scores of its trainer of cross encoders.

use std::collections::BTreeMap;
use std::fs;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use serde_json::{Value, json};
use tonic_types::StatusExt;
use traind_tests::{Draft, Host, model};

use super::{check_losses, copy_files};
use crate::tasks::predictions;
use crate::training::sft::{fixture, lines, set_all};

/// The job of one of the fixture's runs, with its rows to train on.
fn draft(host: &Host, name: &str, run: &str, fixture: &Value) -> Draft {
    let job_file = format!(
        "name: {name}\nmodel: {{name_or_path: ./model, task: reranker}}\n\
         data: {{train: train.jsonl}}\noutput_dir: out\n"
    );
    let draft = Draft::of_job_file(host, name, &job_file);
    let (folder, run) = (draft.path("model"), &fixture["runs"][run]);
    model::write_fixture(&folder, run["model"].as_str().unwrap());
    copy_files("rerankers/tokenizer", &folder);
    if let Some(template) = run["template"].as_str() {
        fs::write(folder.join("chat_template.jinja"), template).unwrap();
    }
    if let Some(settings) = run.get("settings") {
        fs::write(folder.join("modules.json"), "[]").unwrap();
        let kind = json!({"model_type": "CrossEncoder"}).to_string();
        fs::write(folder.join("config_sentence_transformers.json"), kind).unwrap();
        fs::write(folder.join("sentence_bert_config.json"), settings.to_string()).unwrap();
    }
    let draft = draft.write("train.jsonl", lines(run["rows"].as_array().unwrap()));
    let draft = set_all(draft, "train", &fixture["train"]);
    set_all(draft, "reranker", &run["reranker"])
        .set("data.max_length", fixture["max_length"].as_u64().unwrap())
        .set("train.train_sampling_strategy", "sequential")
        .set("train.logging_steps", 1)
        .set("train.save_strategy", "no")
}

/// A reranker has layers whose states can be pooled, and no vectors that anything compares.
#[tokio::test]
async fn vectors_of_a_reranker_have_a_warning() {
    let fixture = fixture("rerankers/runs.json");
    let host = Host::started(1).await;
    let trained = draft(&host, "scores", "pairs", &fixture).set("train.max_steps", 1);
    host.complete(&trained).await;
    let folder = host.path("scores");
    fs::write(folder.join("texts.jsonl"), "{\"text\": \"one\"}\n").unwrap();
    let embedded = |model: &str| {
        let found = host.cli(
            &folder,
            &["embed", model, "texts.jsonl", "--cores", "1", "-o", &format!("of-{model}")],
        );
        assert_eq!(found.code, Some(0), "{}", found.stderr);
        found.stderr
    };
    let said = embedded("out");
    let expect = "scores pairs of texts, and its vectors are those of its layers without the head";
    assert!(said.contains(expect) && said.contains("task: reranker"), "{said}");
    // A classifier is another model.
    model::write_fixture(&folder.join("classifier"), "bert-sequence-classification");
    assert!(!embedded("classifier").contains(expect));
}

/// sentence-transformers fails at pairs that a template does not write.
#[tokio::test]
async fn a_template_that_writes_no_pairs_has_a_warning() {
    let fixture = fixture("rerankers/runs.json");
    let host = Host::started(1).await;
    for (name, role) in
        [("plain", None), ("answers", Some("assistant")), ("queries", Some("query"))]
    {
        let draft = draft(&host, name, "pairs", &fixture).set("train.max_steps", 1);
        if let Some(role) = role {
            let template = format!(
                "{{% for message in messages if message.role == '{role}' %}}{{{{ message.content }}}}{{% endfor %}}"
            );
            fs::write(host.path(name).join("model/chat_template.jinja"), template).unwrap();
        }
        let history = host.complete(&draft).await;
        let warnings = history.warnings("CHAT_TEMPLATE_UNUSED");
        assert_eq!(warnings.len(), usize::from(role.is_some()), "{name}: {warnings:?}");
        // The model reads texts as they are, and is loaded so.
        let settings = transformer_settings(&host, name);
        assert!(settings["modality_config"].get("message").is_none(), "{settings}");
        assert_eq!(draft.output("out").trainer_state().series("loss").len(), 1);
    }
}

fn transformer_settings(host: &Host, name: &str) -> Value {
    let file = host.path(name).join("out/sentence_bert_config.json");
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// Pairs are a conversation of a query and a document where the tokenizer has a template for it, whose contents are
/// texts or lists. Rows that are cut end as the template does.
#[tokio::test]
async fn a_template_writes_pairs_as_in_sentence_transformers() {
    let fixture = fixture("rerankers/runs.json");
    let host = Host::started(2).await;
    for (run, format) in [("texts", "flat"), ("parts", "structured")] {
        let rows = fixture["runs"][run]["rows"].as_array().unwrap();
        let trained = draft(&host, run, run, &fixture)
            .write("test.jsonl", lines(&without_labels(&rows[..4])))
            .set("data.test", "test.jsonl")
            .set("train.do_predict", true);
        let history = host.complete(&trained).await;
        assert!(history.warnings("CHAT_TEMPLATE_UNUSED").is_empty());
        check_losses(&trained, &fixture, run);
        check_scores(&trained, &fixture, run);
        let settings = transformer_settings(&host, run);
        assert_eq!(settings["modality_config"]["message"]["format"], format);
        assert_eq!(
            settings.get("processing_kwargs"),
            fixture["runs"][run]["settings"].get("processing_kwargs")
        );
        // The output is read as it was trained.
        let again = draft(&host, &format!("{run}-again"), run, &fixture)
            .write("test.jsonl", lines(&without_labels(&rows[..4])))
            .set("data.test", "test.jsonl")
            .set("train.do_train", false)
            .set("train.do_predict", true)
            .set("model.name_or_path", trained.path("out").display());
        host.complete(&again).await;
        check_scores(&again, &fixture, run);
    }
}

/// On one core, and on two, which share the rows of each batch or the layers. The output is a folder that
/// `CrossEncoder` loads.
#[tokio::test]
async fn losses_are_those_of_sentence_transformers_on_any_number_of_cores() {
    let fixture = fixture("rerankers/runs.json");
    let host = Host::started(2).await;
    for run in ["pairs", "classes", "margins", "shares", "order"] {
        let one = draft(&host, &format!("{run}-one"), run, &fixture);
        host.complete(&one).await;
        check_losses(&one, &fixture, run);
    }
    let on_two = |name: &str, run: &str| {
        draft(&host, name, run, &fixture)
            .set("train.per_device_train_batch_size", 2)
            .set("resources.cores", 2)
    };
    let two = on_two("order-two", "order");
    host.complete(&two).await;
    check_losses(&two, &fixture, "order");
    for run in ["shares", "order"] {
        let stages = on_two(&format!("{run}-stages"), run)
            .set("train.per_device_train_batch_size", 4)
            .set("parallel.pipeline", 2);
        host.complete(&stages).await;
        check_losses(&stages, &fixture, run);
    }
    let config = |name: &str| -> Value {
        let file = host.path(name).join("out/config.json");
        serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
    };
    let (scores, classes) = (config("pairs-one"), config("classes-one"));
    assert_eq!(scores["architectures"], json!(["BertForSequenceClassification"]));
    assert_eq!(scores["id2label"], json!({"0": "LABEL_0"}));
    let activation = |config: &Value| config["sentence_transformers"]["activation_fn"].clone();
    assert_eq!(activation(&scores), "torch.nn.modules.activation.Sigmoid");
    assert_eq!(activation(&classes), "torch.nn.modules.linear.Identity");
    let card = fs::read_to_string(host.path("pairs-one/out/README.md")).unwrap();
    assert!(card.contains("library_name: sentence-transformers"), "{card}");
}

/// Evaluations have the names of sentence-transformers' evaluators, and rows to predict get the scores of `predict`.
#[tokio::test]
async fn passages_are_evaluated_and_scored() {
    let fixture = fixture("rerankers/runs.json");
    let host = Host::started(1).await;
    let rows = |run: &str| fixture["runs"][run]["rows"].as_array().unwrap().clone();
    let evaluated = |name: &str, run: &str, metric: &str| {
        draft(&host, name, run, &fixture)
            .write("dev.jsonl", lines(&rows(run)[..6]))
            .write("test.jsonl", lines(&without_labels(&rows(run)[..4])))
            .set("data.validation", "dev.jsonl")
            .set("data.test", "test.jsonl")
            .set("train.do_predict", true)
            .set("train.eval_strategy", "epoch")
            .set("train.save_strategy", "epoch")
            .set("train.load_best_model_at_end", true)
            .set("train.metric_for_best_model", metric)
    };
    let mut read = BTreeMap::new();
    for (run, metric, names) in [
        ("pairs", "average_precision", ["accuracy_threshold", "f1", "recall"]),
        ("shares", "ndcg@10", ["map", "mrr@10", "loss"]),
        ("classes", "f1_macro", ["f1_micro", "f1_weighted", "accuracy"]),
    ] {
        let draft = evaluated(run, run, metric);
        host.complete(&draft).await;
        let state = draft.output("out").trainer_state();
        for name in names.iter().chain([&metric]) {
            let values = state.series(&format!("eval_{name}"));
            assert_eq!(values.len(), 1, "{run}: {name}");
            assert!(values[0].is_finite());
        }
        read.insert(run, predictions::read(&draft.output("out")));
    }
    check_scores_in(&read["pairs"], &fixture, "pairs");
    // A row has the scores of its own passages, however many a list may have.
    let lists = predictions::number_lists(&read["shares"], "scores");
    let lengths: Vec<usize> = lists.iter().map(Vec::len).collect();
    assert_eq!(lengths, [2, 3, 4, 2]);
}

/// Compares the predicted scores of pairs with those of sentence-transformers.
fn check_scores(draft: &Draft, fixture: &Value, run: &str) {
    check_scores_in(&predictions::read(&draft.output("out")), fixture, run);
}

fn check_scores_in(found: &RecordBatch, fixture: &Value, run: &str) {
    let scores = found.column_by_name("score").unwrap().as_primitive::<Float32Type>().values();
    let expect = fixture["runs"][run]["scores"].as_array().unwrap();
    assert_eq!(scores.len(), expect.len());
    for (found, expect) in scores.iter().zip(expect) {
        let difference = f64::from(*found) - expect.as_f64().unwrap();
        assert!(difference.abs() < 1e-3, "{run}: {scores:?}, theirs is {expect}");
    }
}

fn without_labels(rows: &[Value]) -> Vec<Value> {
    let mut rows = rows.to_vec();
    for row in &mut rows {
        let row = row.as_object_mut().unwrap();
        row.retain(|key, _| !["label", "labels"].contains(&key.as_str()));
    }
    rows
}

/// Rows and models that the loss does not take are refused, with what would help.
#[tokio::test]
async fn rows_that_do_not_fit_the_loss_are_refused() {
    let fixture = fixture("rerankers/runs.json");
    let host = Host::started(1).await;
    let of = |name: &str, run: &str| draft(&host, name, run, &fixture);
    let small = of("small", "shares").set("reranker.list_size", 2);
    let lists = of("lists", "pairs").set("reranker.loss", "list_net");
    let lists = lists.set("reranker.pos_weight", "null");
    let classes = of("many", "classes").set("reranker.loss", "mse");
    for (draft, field, expect) in [
        (small, "data.train", "reranker.list_size is the most that a row may have"),
        (lists, "data.texts", "the loss compares the passages of a row"),
        (classes, "model.num_labels", "the model has so many labels"),
    ] {
        let error = host.create(&draft).await.unwrap_err();
        let violations = error.get_error_details();
        let violations = &violations.bad_request().unwrap().field_violations;
        assert_eq!(violations[0].field, field);
        assert!(violations[0].description.contains(expect), "{violations:?}");
    }
}
