//! Rows that another program tokenized.

use traind_proto::v1::JobState;
use traind_tests::{Draft, Host};

/// Rows as `datasets` saves them after tokenizing with `padding="max_length"`.
fn rows() -> String {
    let row = |number: u32| {
        let words = 1 + number % 4;
        let ids: Vec<u32> =
            (0..6).map(|at| if at < words { 5 + (number + at) % 8 } else { 0 }).collect();
        let mask: Vec<u32> = (0..6).map(|at| u32::from(at < words)).collect();
        let label = number % 3;
        format!(r#"{{"input_ids": {ids:?}, "attention_mask": {mask:?}, "labels": {label}}}"#)
    };
    (0..12).map(row).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn rows_of_tokens_are_recognized_by_their_columns() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "tokens")
        .write("tokens.jsonl", rows())
        .set("data.train", "tokens.jsonl")
        .set("data.validation", "null")
        .set("data.label", "labels")
        .set("data.label_map", "null")
        .set("train.per_device_train_batch_size", 4);
    let history = host.complete(&draft).await;
    assert_eq!(history.job.state(), JobState::Completed);
    let data = &history.data()[0];
    // Padding does not count: 3 times 1 + 2 + 3 + 4 tokens.
    assert_eq!((data.rows, data.tokens, data.classes.len()), (12, 30, 3));
}
