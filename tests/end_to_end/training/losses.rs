//! Losses by name, with weights of rows and classes.

use tonic_types::StatusExt;
use traind_tests::{Draft, Host};

/// A job on rows with weights, some of which are 0.
fn draft(host: &Host, name: &str) -> Draft {
    let draft = Draft::new(host, name);
    let rows = draft.validation.clone();
    let lines = rows.iter().enumerate().map(|(row, (text, label))| {
        format!("\"{text}\",{label},{}\n", [1.0, 0.0, 2.5, 0.25][row % 4])
    });
    let csv = "text,label,w\n".to_owned() + &lines.collect::<String>();
    draft
        .write("train.csv", csv)
        .set("data.weight", "w")
        .set("data.validation", "train.csv")
        .set("train.loss", "focal")
        .set("train.loss_args", "{gamma: 1.5}")
        .set("train.class_weights", "[1.0, 0.5, 3.0]")
        .set("train.max_steps", 5)
}

#[tokio::test]
async fn weighted_losses_are_equal_on_two_cores_and_with_accumulation() {
    let host = Host::started(2).await;
    let mut runs = Vec::new();
    for (name, cores, rows, steps) in [("one", 1, 8, 1), ("two", 2, 4, 1), ("parts", 1, 4, 2)] {
        let draft = draft(&host, name)
            .set("resources.cores", cores)
            .set("train.per_device_train_batch_size", rows)
            .set("train.gradient_accumulation_steps", steps);
        let metrics = host.complete(&draft).await.job.metrics;
        let mut losses = draft.output("out").trainer_state().series("loss");
        losses.push(metrics["eval_loss"]);
        runs.push(losses);
    }
    for run in &runs[1..] {
        for (found, expect) in run.iter().zip(&runs[0]) {
            assert!((found - expect).abs() <= 1e-5 * expect, "{runs:?}");
        }
        assert_eq!(run.len(), runs[0].len());
    }
}

/// Rows of weight 0 are as if they were absent, and only proportions of weights matter.
#[tokio::test]
async fn rows_count_by_their_weights_in_evaluations() {
    let host = Host::started(1).await;
    let mut losses = Vec::new();
    for (name, weights) in [("absent", [1, 3, 0]), ("none", [2, 6, 0])] {
        let draft = Draft::new(&host, name);
        let rows =
            draft.validation.iter().enumerate().filter(|(row, _)| name == "none" || row % 3 < 2);
        let lines =
            rows.map(|(row, (text, label))| format!("\"{text}\",{label},{}\n", weights[row % 3]));
        let csv = "text,label,w\n".to_owned() + &lines.collect::<String>();
        let draft = draft
            .write("rows.csv", csv)
            .set("data.weight", "w")
            .set("data.validation", "rows.csv")
            .set("train.do_train", false);
        losses.push(host.complete(&draft).await.job.metrics["eval_loss"]);
    }
    assert!((losses[0] - losses[1]).abs() <= 1e-6 * losses[0], "{losses:?}");
}

#[tokio::test]
async fn a_row_without_a_weight_is_named() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job")
        .write("train.csv", "text,label,w\na cat,animal,1\na pear,fruit,-2\na saw,tool,1\n")
        .set("data.weight", "w")
        .set("data.validation", "train.csv");
    let details = host.create(&draft).await.unwrap_err().get_error_details();
    let violation = &details.bad_request().unwrap().field_violations[0];
    let expect = "column \"w\": expected a weight, a number of at least 0, found -2";
    assert_eq!(violation.field, "data.train");
    assert!(violation.description.contains(expect), "{violation:?}");
    assert!(violation.description.contains("train.csv, row 1 (line 3)"), "{violation:?}");
}
