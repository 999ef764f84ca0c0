//! Metrics are independent of the number of cores and of batch sizes.

use std::collections::BTreeMap;

use traind_tests::{Draft, Host};

/// Cores and rows per core. 53 rows leave a partial last batch, or cores without a row.
const LAYOUTS: [(u32, u32); 4] = [(1, 1), (1, 8), (2, 27), (4, 5)];

#[tokio::test]
async fn metrics_are_independent_of_cores_and_batches() {
    let host = Host::started(4).await;
    let mut found = Vec::new();
    for (cores, rows) in LAYOUTS {
        found.push(evaluate(&host, cores, rows).await);
    }
    let expect = &found[0];
    assert!(expect["eval_accuracy"] > 0.0 && expect["eval_accuracy"] < 1.0, "{expect:?}");
    for (layout, metrics) in LAYOUTS.iter().zip(&found) {
        for name in ["eval_accuracy", "eval_f1_macro", "eval_f1_weighted"] {
            assert_eq!(metrics[name], expect[name], "{name} of {layout:?}");
        }
        let (loss, expect) = (metrics["eval_loss"], expect["eval_loss"]);
        assert!((loss - expect).abs() <= 1e-6 * expect, "{layout:?}: {loss} for {expect}");
    }
}

/// Evaluates the unchanged model.
async fn evaluate(host: &Host, cores: u32, rows: u32) -> BTreeMap<String, f64> {
    let draft = Draft::new(host, &format!("layout-{cores}-{rows}"))
        .with_two_shapes()
        .set("resources.cores", cores)
        .set("train.per_device_eval_batch_size", rows)
        .set("train.do_train", false);
    host.complete(&draft).await.job.metrics.into_iter().collect()
}

#[tokio::test]
async fn a_test_split_is_evaluated_once_at_the_end() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job").set("data.test", "validation.parquet");
    let draft = draft.set("train.logging_steps", 1000);
    let history = host.complete(&draft).await;
    // No step was logged, and the job has its last one all the same.
    let progress = history.job.progress.as_ref().unwrap();
    assert!(progress.step > 0 && progress.step == progress.max_steps, "{progress:?}");
    assert_eq!(progress.loss, history.job.metrics["train_loss"]);
    let (last, metrics) = (history.event_names().len() - 3, &history.job.metrics);
    assert_eq!(history.event_names()[last - 1..=last], ["Saved", "Evaluated test"]);
    assert_eq!(metrics["test_loss"], metrics["eval_loss"]);
    assert_eq!(metrics["test_accuracy"], metrics["eval_accuracy"]);
}
