//! Token classification.

use serde_json::json;
use traind_tests::Host;

use super::{TaskJob, architecture, assert_pipeline_tag, rows, train};

pub(super) fn job() -> TaskJob {
    TaskJob {
        task: "token-classification",
        fixture: "bert-masked-lm",
        data: "{train: train.jsonl, validation: validation.jsonl}",
        files: vec![("train.jsonl", rows::words(1, 60)), ("validation.jsonl", rows::words(2, 31))],
    }
}

#[tokio::test]
async fn entities_are_learnt() {
    let host = Host::started(2).await;
    let draft = job()
        .draft(&host, "entities")
        .set("resources.cores", 2)
        .set("train.per_device_train_batch_size", 4)
        .set("train.num_train_epochs", 10)
        .set("train.learning_rate", 1e-2);
    let (metrics, output) = train(&host, &draft, 0.5).await;
    for name in ["eval_precision", "eval_recall", "eval_f1", "eval_accuracy"] {
        assert!(metrics[name] > 0.8 && metrics[name] <= 1.0, "{name} of {metrics:?}");
    }
    assert_eq!(architecture(&output), "BertForTokenClassification");
    let names = json!({"0": "B-animal", "1": "B-fruit", "2": "B-tool", "3": "O"});
    assert_eq!(output.json("config.json")["id2label"], names);
    assert_pipeline_tag(&output, "token-classification");
}
