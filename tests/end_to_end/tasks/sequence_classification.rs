//! Sequence classification: pairs, regression, several labels per row.

use serde_json::json;
use traind_tests::{Host, data};

use super::{TaskJob, rows, train};

fn job(data: &'static str, row: impl Fn(&str, usize) -> serde_json::Value) -> TaskJob {
    let of = |seed, count| {
        let rows = data::rows(seed, count, 6).into_iter();
        let class = |name| data::CLASSES.iter().position(|class| *class == name).unwrap();
        rows::jsonl(rows.map(|(text, name)| row(&text, class(name))))
    };
    TaskJob {
        task: "sequence-classification",
        fixture: "bert-masked-lm",
        data,
        files: vec![("train.jsonl", of(1, 60)), ("validation.jsonl", of(2, 31))],
    }
}

/// Rows with one class name each.
pub(super) fn classes() -> TaskJob {
    let files =
        "{train: train.jsonl, validation: validation.jsonl, label_map: [animal, fruit, tool]}";
    job(files, |text, class| json!({"text": text, "label": data::CLASSES[class]}))
}

/// The tokenizer's `model_max_length` is more than the model's 32 positions, and so are rows.
#[tokio::test]
async fn rows_are_cut_to_the_positions_of_the_model_with_a_warning() {
    let host = Host::started(1).await;
    let mut losses = Vec::new();
    for (limit, warnings) in [(32, 0), (512, 1)] {
        let config = json!({"tokenizer_class": "BertTokenizer", "model_max_length": limit});
        let files = "{train: train.jsonl, label_map: [animal, fruit, tool]}";
        let row =
            |text: &str, class| json!({"text": text.repeat(20), "label": data::CLASSES[class]});
        let draft = job(files, row)
            .draft(&host, &format!("limit-{limit}"))
            .write("model/tokenizer_config.json", config.to_string())
            .set("train.max_steps", 2);
        let history = host.complete(&draft).await;
        let found = history.warnings("MAX_LENGTH_CUT");
        assert_eq!(found.len(), warnings, "{found:?}");
        for warning in found {
            assert!(
                warning.contains("512") && warning.ends_with("texts are cut to 32"),
                "{warning}"
            );
        }
        losses.push(history.steps().iter().map(|step| step.loss).collect::<Vec<_>>());
    }
    assert_eq!(losses[0], losses[1]);
}

#[tokio::test]
async fn regression_learns_a_number() {
    let host = Host::started(2).await;
    let files = "{train: train.jsonl, validation: validation.jsonl}";
    let draft = job(files, |text, class| json!({"text": text, "label": class as f64 - 0.5}))
        .draft(&host, "numbers")
        .set("model.num_labels", 1)
        .set("resources.cores", 2)
        .set("train.num_train_epochs", 10)
        .set("train.learning_rate", 1e-2);
    let (metrics, output) = train(&host, &draft, 0.5).await;
    assert!(metrics["eval_pearson"] > 0.5 && metrics["eval_spearmanr"] > 0.5, "{metrics:?}");
    assert!((metrics["eval_mse"] - metrics["eval_loss"]).abs() < 1e-5, "{metrics:?}");
    let config = output.json("config.json");
    assert_eq!(config["problem_type"], "regression");
    assert_eq!(config["id2label"], json!({"0": "LABEL_0"}));
}

#[tokio::test]
async fn regression_learns_two_numbers_per_row() {
    let host = Host::started(1).await;
    let files = "{train: train.jsonl, validation: validation.jsonl, test: validation.jsonl}";
    let numbers = |class: usize| [class as f64 - 0.5, 1.0 - class as f64];
    let draft = job(files, |text, class| json!({"text": text, "label": numbers(class)}))
        .draft(&host, "two-numbers")
        .set("model.problem_type", "regression")
        .set("model.num_labels", 2)
        .set("train.do_predict", true)
        .set("train.num_train_epochs", 10)
        .set("train.learning_rate", 1e-2);
    let (metrics, output) = train(&host, &draft, 0.5).await;
    assert!(metrics["eval_pearson"] > 0.5 && metrics["eval_spearmanr"] > 0.5, "{metrics:?}");
    assert!((metrics["eval_mse"] - metrics["eval_loss"]).abs() < 1e-5, "{metrics:?}");
    let config = output.json("config.json");
    assert_eq!(config["problem_type"], "regression");
    assert_eq!(config["id2label"], json!({"0": "LABEL_0", "1": "LABEL_1"}));
    assert!(output.names().contains(&"predictions.parquet".to_owned()), "{:?}", output.names());
}

#[tokio::test]
async fn several_labels_per_row_are_learnt() {
    let host = Host::started(1).await;
    let files =
        "{train: train.jsonl, validation: validation.jsonl, label_map: [animal, fruit, tool]}";
    let draft = job(files, |text, class| {
        let labels: Vec<&str> = data::CLASSES[class..].to_vec();
        json!({"text": text, "label": labels})
    });
    let draft = draft
        .draft(&host, "several")
        .set("model.problem_type", "multi_label_classification")
        .set("train.num_train_epochs", 10)
        .set("train.learning_rate", 1e-2);
    let (metrics, output) = train(&host, &draft, 0.5).await;
    for name in ["eval_accuracy", "eval_f1", "eval_f1_macro", "eval_f1_micro", "eval_f1_weighted"] {
        assert!(metrics[name] > 0.7 && metrics[name] <= 1.0, "{name} of {metrics:?}");
    }
    assert_eq!(output.json("config.json")["problem_type"], "multi_label_classification");
}

/// Columns are renamed, and one of text is cast to integers. The number of classes is inferred.
#[tokio::test]
async fn pairs_from_renamed_and_cast_columns_are_learnt() {
    let host = Host::started(1).await;
    let columns = "{train: train.jsonl, validation_split: 0.3, text_pair: second, \
                   columns: {rename: {first: text, class: label}, drop: [more], cast: {label: int64}}}";
    let draft = job(
        columns,
        |text, class| json!({"first": text, "second": "the old one", "class": class.to_string(), "more": 1}),
    );
    let draft = draft
        .draft(&host, "pairs")
        .set("train.num_train_epochs", 10)
        .set("train.learning_rate", 1e-2);
    let (metrics, output) = train(&host, &draft, 0.8).await;
    assert!(metrics["eval_accuracy"] > 0.5, "{metrics:?}");
    let names = json!({"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"});
    assert_eq!(output.json("config.json")["id2label"], names);
}
