//! Jobs on CPUs whose layers compute no padding.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use traind_proto::v1::event::Kind;
use traind_tests::{Draft, Host, data, model};

use crate::tasks::predictions;
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

/// Published decoders that embed texts by their last token pad before them.
#[tokio::test]
async fn texts_behind_padding_are_embedded_without_it() {
    let host = Host::started(2).await;
    check(&host, |name| {
        let draft = pairs_draft(&host, name).set("embedding.pooling_mode", "lasttoken");
        write_left_padded(&draft.path("model"), "qwen3-causal-lm");
        draft
    })
    .await;
}

#[tokio::test]
async fn decoders_classify_texts_behind_padding_without_it() {
    let host = Host::started(2).await;
    check(&host, |name| {
        let draft = Draft::new(&host, name).with_long_rows();
        write_left_padded(&draft.path("model"), "qwen3-sequence-classification");
        draft
    })
    .await;
}

/// A BERT classifies by the first place of a row, where padding may stand.
#[tokio::test]
async fn padding_that_a_head_reads_is_computed() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "first").with_long_rows();
    write_left_padded(&draft.path("model"), "bert-sequence-classification");
    let history = host.complete(&draft).await;
    let logs = history.log_messages();
    assert!(!logs.iter().any(|log| log.contains("without its padding")), "{logs:?}");
}

/// Each part of a batch is packed by itself. Parts of five rows do not divide a batch.
#[tokio::test]
async fn texts_in_parts_are_embedded_without_padding_as_with_padding() {
    let host = Host::started(2).await;
    check(&host, |name| pairs_draft(&host, name).set("embedding.mini_batch_size", 5)).await;
}

/// The loss of evaluated pairs and the vectors of others, by programs of evaluation alone.
#[tokio::test]
async fn pairs_are_evaluated_without_padding_as_with_padding() {
    let host = Host::started(2).await;
    let mut found = Vec::new();
    for (name, is_padded, cores) in
        [("padded", true, 1), ("packed", false, 1), ("on_two", false, 2)]
    {
        let mut draft = pairs_draft(&host, name)
            .write("test.jsonl", jsonl(pairs(3, 45)))
            .set("data.test", "test.jsonl")
            .set("train.do_train", false)
            .set("train.do_eval", true)
            .set("train.do_predict", true)
            .set("train.per_device_eval_batch_size", 16 / cores)
            .set("resources.cores", cores);
        if is_padded {
            draft = draft.set("data.padded_lengths_max", 1);
        }
        let history = host.complete(&draft).await;
        let logs = history.log_messages();
        for split in ["validation", "test"] {
            let expect = format!("{split} data: layers compute no padding");
            assert_eq!(logs.iter().any(|log| *log == expect), !is_padded, "{name}: {logs:?}");
        }
        // Once the job also said what the steps of training would do, of which it has none.
        let of_training = logs.iter().find(|log| log.starts_with("Layers compute"));
        assert_eq!(of_training, None, "{name}");
        let evaluated = history.events.iter().find_map(|event| match &event.kind {
            Some(Kind::Evaluated(evaluated)) => Some(evaluated.metrics["eval_loss"]),
            _ => None,
        });
        let vectors = predictions::read(&draft.output("out"));
        let columns = ["anchor", "positive"].map(|it| predictions::number_lists(&vectors, it));
        let values: Vec<f32> = columns.into_iter().flatten().flatten().collect();
        found.push((evaluated.unwrap(), values));
    }
    let (loss, vectors) = &found[0];
    for (of_packed, values) in &found[1..] {
        assert!((of_packed - loss).abs() <= 1e-6 * loss.abs(), "{of_packed}, {loss}");
        assert_eq!(values.len(), vectors.len());
        for (value, expect) in values.iter().zip(vectors) {
            assert!((value - expect).abs() <= 1e-6, "{value}, {expect}");
        }
    }
}

/// Writes the model of a fixture with more positions, and a tokenizer that pads before texts.
fn write_left_padded(folder: &Path, fixture: &str) {
    model::write_fixture(folder, fixture);
    let set = |file: &str, keys: &[(&str, Value)]| {
        let path = folder.join(file);
        let mut content: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        keys.iter().for_each(|(key, value)| content[*key] = value.clone());
        fs::write(path, content.to_string()).unwrap();
    };
    if fixture.starts_with("qwen3") {
        let keys = [("max_position_embeddings", json!(64)), ("pad_token_id", json!(0))];
        set("config.json", &keys);
    }
    set("tokenizer_config.json", &[("padding_side", json!("left"))]);
}

/// Short texts beside long ones, which padded batches make as long.
fn pairs_draft(host: &Host, name: &str) -> Draft {
    let files = "{train: train.jsonl, validation: validation.jsonl}";
    Draft::new(host, name)
        .of_task("embedding", "bert-masked-lm", files)
        .write("train.jsonl", jsonl(pairs(1, 96)))
        .write("validation.jsonl", jsonl(pairs(2, 31)))
}

fn pairs(seed: u64, count: usize) -> impl Iterator<Item = Value> {
    let short = data::rows(seed, count, 4).into_iter();
    let pairs = short.zip(data::rows(seed + 7, count, WORDS_MAX));
    pairs.map(|((anchor, _), (positive, _))| json!({"anchor": anchor, "positive": positive}))
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
