//! Jobs on CPUs whose layers compute no padding.

use serde_json::json;
use traind_tests::{Draft, Host, data};

use crate::tasks::rows::{jsonl, words_up_to};

/// The most words of a row.
const WORDS_MAX: usize = 40;

#[tokio::test]
async fn a_job_without_padding_trains_as_with_padding() {
    let host = Host::started(2).await;
    check(&host, |name| Draft::new(&host, name).with_long_rows()).await;
}

#[tokio::test]
async fn words_are_labelled_without_padding_as_with_padding() {
    let host = Host::started(2).await;
    let files = "{train: train.jsonl, validation: validation.jsonl}";
    check(&host, |name| {
        Draft::new(&host, name)
            .of_task("token-classification", "bert-masked-lm", files)
            .write("train.jsonl", words_up_to(WORDS_MAX, 1, 96))
            .write("validation.jsonl", words_up_to(WORDS_MAX, 2, 31))
    })
    .await;
}

#[tokio::test]
async fn texts_are_embedded_without_padding_as_with_padding() {
    let host = Host::started(2).await;
    check(&host, |name| pairs_draft(&host, name)).await;
}

/// Each part of a batch is packed by itself. Parts of five rows do not divide a batch.
#[tokio::test]
async fn texts_in_parts_are_embedded_without_padding_as_with_padding() {
    let host = Host::started(2).await;
    check(&host, |name| pairs_draft(&host, name).set("embedding.mini_batch_size", 5)).await;
}

/// Short texts beside long ones, which padded batches make as long.
fn pairs_draft(host: &Host, name: &str) -> Draft {
    let pairs =
        |seed: u64, count: usize| {
            let short = data::rows(seed, count, 4).into_iter();
            let pairs = short.zip(data::rows(seed + 7, count, WORDS_MAX));
            jsonl(pairs.map(
                |((anchor, _), (positive, _))| json!({"anchor": anchor, "positive": positive}),
            ))
        };
    let files = "{train: train.jsonl, validation: validation.jsonl}";
    Draft::new(host, name)
        .of_task("embedding", "bert-masked-lm", files)
        .write("train.jsonl", pairs(1, 96))
        .write("validation.jsonl", pairs(2, 31))
}

/// Compares losses and norms of gradients, with dropout, of a job whose batches are padded to one length with those of
/// the same job without padding in its layers.
async fn check(host: &Host, draft: impl Fn(&str) -> Draft) {
    let mut states = Vec::new();
    for (name, is_padded, cores) in
        [("padded", true, 1), ("packed", false, 1), ("on_two", false, 2)]
    {
        let mut draft = draft(name).set("resources.cores", cores);
        if is_padded {
            draft = draft.set("data.padded_lengths_max", 1);
        }
        // The loss of labelled words is a mean over batches, which have to be the same, too.
        let draft = ["train.per_device_train_batch_size", "train.per_device_eval_batch_size"]
            .into_iter()
            .fold(draft, |draft, key| draft.set(key, 16 / cores));
        let history = host.complete(&draft).await;
        let is_packed =
            history.log_messages().iter().any(|log| log.contains("without its padding"));
        assert_eq!(is_packed, !is_padded, "{name}: {:?}", history.log_messages());
        states.push(draft.output("out").trainer_state());
    }
    for key in ["loss", "grad_norm", "eval_loss"] {
        let expect = states[0].series(key);
        assert!(!expect.is_empty(), "{key}");
        for state in &states[1..] {
            for (found, expect) in state.series(key).iter().zip(&expect) {
                assert!((found - expect).abs() <= 2e-4 * expect.abs(), "{key}: {found}, {expect}");
            }
        }
    }
}
