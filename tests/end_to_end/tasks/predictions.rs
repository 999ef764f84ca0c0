//! `predictions.parquet`: predictions for rows without labels, in order.

use std::fs::File;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt32Type};
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use traind_tests::{Draft, Host, Output, data};

use super::{question_answering, rows, sequence_classification, token_classification};

pub(crate) fn read(output: &Output) -> RecordBatch {
    let file = File::open(output.folder().join("predictions.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    assert_eq!(batches.len(), 1);
    batches[0].clone()
}

pub(super) fn texts(batch: &RecordBatch, column: &str) -> Vec<String> {
    let column = batch.column_by_name(column).unwrap().as_string::<i32>();
    column.iter().map(|text| text.unwrap().to_owned()).collect()
}

fn text_lists(batch: &RecordBatch, column: &str) -> Vec<Vec<String>> {
    let lists = batch.column_by_name(column).unwrap().as_list::<i32>();
    let texts = |list: &dyn Array| {
        list.as_string::<i32>().iter().map(|text| text.unwrap().to_owned()).collect()
    };
    lists.iter().map(|list| texts(&list.unwrap())).collect()
}

pub(crate) fn number_lists(batch: &RecordBatch, column: &str) -> Vec<Vec<f32>> {
    let lists = batch.column_by_name(column).unwrap().as_list::<i32>();
    lists.iter().map(|list| list.unwrap().as_primitive::<Float32Type>().values().to_vec()).collect()
}

/// The rows of a file without one of their columns.
fn without(jsonl: &str, column: &str) -> String {
    rows::jsonl(jsonl.lines().map(|line| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        row.as_object_mut().unwrap().remove(column);
        row
    }))
}

/// Runs a job that predicts the rows of its validation file from a copy without labels.
async fn predict(host: &Host, draft: Draft, unlabelled: String) -> (Draft, RecordBatch, f64) {
    let draft = draft
        .write("test.jsonl", unlabelled)
        .set("data.test", "test.jsonl")
        .set("train.do_predict", true)
        .set("train.num_train_epochs", 6)
        .set("train.learning_rate", 1e-2)
        .set("resources.cores", 2)
        .set("train.per_device_eval_batch_size", 3);
    let history = host.complete(&draft).await;
    let accuracy = history.job.metrics.get("eval_accuracy").copied().unwrap_or_default();
    assert!(!history.job.metrics.contains_key("test_loss"), "rows without labels have no loss");
    let batch = read(&draft.output("out"));
    (draft, batch, accuracy)
}

#[tokio::test]
async fn classes_of_rows_are_predicted() {
    let host = Host::started(2).await;
    let job = sequence_classification::classes();
    let (_, validation) = job.files.iter().find(|(name, _)| *name == "validation.jsonl").unwrap();
    let draft = job.draft(&host, "classes");
    let (draft, batch, accuracy) = predict(&host, draft, without(validation, "label")).await;
    let labels = validation.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        row["label"].as_str().unwrap().to_owned()
    });
    let predictions = texts(&batch, "prediction");
    let right = predictions.iter().zip(labels).filter(|(found, label)| *found == label).count();
    assert_eq!(right as f64 / predictions.len() as f64, accuracy);
    for (prediction, probabilities) in predictions.iter().zip(number_lists(&batch, "probabilities"))
    {
        let sum: f32 = probabilities.iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "{probabilities:?}");
        let best = (0..3).max_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b])).unwrap();
        assert_eq!(data::CLASSES[best], prediction);
    }
    let matrix = draft.output("out").text("confusion_matrix.svg");
    assert!(data::CLASSES.iter().all(|class| matrix.contains(class)), "{matrix}");
    assert!(draft.output("out").text("loss_curve.svg").contains("train"));
}

#[tokio::test]
async fn classes_of_words_are_predicted() {
    let host = Host::started(2).await;
    let job = token_classification::job();
    let (_, validation) = job.files.iter().find(|(name, _)| *name == "validation.jsonl").unwrap();
    let draft = job.draft(&host, "words");
    let (_, batch, accuracy) = predict(&host, draft, without(validation, "labels")).await;
    let (predictions, probabilities) =
        (text_lists(&batch, "prediction"), number_lists(&batch, "probabilities"));
    let (mut right, mut words) = (0, 0);
    for (row, line) in validation.lines().enumerate() {
        let labels: Value = serde_json::from_str::<Value>(line).unwrap()["labels"].take();
        let labels = labels.as_array().unwrap();
        assert_eq!(
            (predictions[row].len(), probabilities[row].len()),
            (labels.len(), labels.len())
        );
        right += labels.iter().zip(&predictions[row]).filter(|(a, b)| **a == **b).count();
        words += labels.len();
        assert!(probabilities[row].iter().all(|probability| (0.0..=1.0).contains(probability)));
    }
    assert_eq!(right as f64 / words as f64, accuracy);
}

#[tokio::test]
async fn answers_are_predicted() {
    let host = Host::started(2).await;
    let job = question_answering::job();
    let questions = question_answering::questions(&rows::squad(2, 31, false));
    let unlabelled = rows::jsonl(questions.iter().map(|(id, context, answer)| {
        serde_json::json!({"id": id, "context": context, "question": answer})
    }));
    let draft = job.draft(&host, "questions");
    let (draft, batch, _) = predict(&host, draft, unlabelled).await;
    let expect = draft.output("out").json("predictions.json");
    let number = |column| batch.column_by_name(column).unwrap().as_primitive::<UInt32Type>();
    let (starts, ends) = (number("start"), number("end"));
    let probability = batch.column_by_name("probability").unwrap().as_primitive::<Float64Type>();
    let (ids, answers) = (texts(&batch, "id"), texts(&batch, "prediction"));
    assert_eq!(ids.len(), questions.len());
    for (row, (id, context, _)) in questions.iter().enumerate() {
        assert_eq!((&ids[row], &answers[row]), (id, &expect[id].as_str().unwrap().to_owned()));
        let place = starts.value(row) as usize..ends.value(row) as usize;
        assert_eq!(&context[place], answers[row]);
        assert!(probability.value(row) > 0.0 && probability.value(row) <= 1.0);
    }
}

/// One job trains a model and another evaluates it and predicts with it, using its class names.
#[tokio::test]
async fn a_trained_model_predicts_without_training() {
    let host = Host::started(1).await;
    let job = sequence_classification::classes();
    let draft = job.draft(&host, "trained").set("train.learning_rate", 1e-2);
    let trained = host.complete(&draft).await.job.metrics;
    let model = draft.path("out");
    let (_, validation) = job.files.iter().find(|(name, _)| *name == "validation.jsonl").unwrap();
    let draft = Draft::new(&host, "asked")
        .of_task(
            "sequence-classification",
            "bert-masked-lm",
            "{validation: validation.jsonl, test: test.jsonl}",
        )
        .write("validation.jsonl", validation)
        .write("test.jsonl", without(validation, "label"))
        .set("model.name_or_path", model.display())
        .set("train.do_train", false)
        .set("train.do_predict", true);
    let history = host.complete(&draft).await;
    let asked = &history.job.metrics;
    for name in ["eval_accuracy", "eval_f1_macro"] {
        assert_eq!(asked[name], trained[name], "{name}");
    }
    assert!((asked["eval_loss"] - trained["eval_loss"]).abs() < 1e-6);
    assert!(history.steps().is_empty() && !asked.contains_key("train_loss"), "{asked:?}");
    let output = draft.output("out");
    assert!(!output.names().contains(&"model.safetensors".to_owned()), "{:?}", output.names());
    let predictions = texts(&read(&output), "prediction");
    assert_eq!(predictions.len(), validation.lines().count());
    assert!(predictions.iter().all(|class| data::CLASSES.contains(&class.as_str())));
}

/// The test splits of GLUE have them.
#[tokio::test]
async fn rows_with_the_label_minus_one_are_predicted_as_rows_without_labels() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job")
        .write("test.csv", "text,label\ncat dog,-1\npear,-1\n")
        .set("data.test", "test.csv")
        .set("train.do_predict", true)
        .set("train.max_steps", 2);
    let history = host.complete(&draft).await;
    assert!(!history.job.metrics.contains_key("test_loss"), "{:?}", history.job.metrics);
    assert_eq!(texts(&read(&draft.output("out")), "prediction").len(), 2);
}
