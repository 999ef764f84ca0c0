//! Models that read a text and write one.

use serde_json::{Value, json};
use traind_tests::{Host, data};

use super::{TaskJob, architecture, assert_pipeline_tag, rows, train};

pub(super) fn job() -> TaskJob {
    TaskJob {
        task: "seq2seq-lm",
        fixture: "t5-gated-seq2seq-lm",
        data: "{train: train.jsonl, validation: validation.jsonl, source_prefix: 'the ', \
               max_source_length: 12, max_target_length: 6, pad_to_multiple_of: 6}",
        files: vec![("train.jsonl", pairs(1, 80)), ("validation.jsonl", pairs(2, 31))],
    }
}

/// Texts, and their last words before the first ones; rows have from 3 to 8 words.
fn pairs(seed: u64, count: usize) -> String {
    let texts = (3..9).flat_map(|words| data::rows(seed + words, count / 6 + 1, words as usize));
    rows::jsonl(texts.take(count).map(|(text, _)| {
        let mut words: Vec<&str> = text.split(' ').collect();
        words.reverse();
        words.truncate(1 + text.len() % 4);
        json!({"source": text, "target": words.join(" ")})
    }))
}

#[tokio::test]
async fn models_learn_to_write_targets() {
    let host = Host::started(2).await;
    // BART, with norms behind each part of a layer, learns more slowly at this rate.
    let table = [("t5-gated-seq2seq-lm", "T5", 0.3), ("bart-seq2seq-lm", "Bart", 0.2)];
    for (fixture, class, least_accuracy) in table {
        let draft = TaskJob { fixture, ..job() }
            .draft(&host, fixture)
            .set("resources.cores", 2)
            .set("train.num_train_epochs", 12)
            .set("train.learning_rate", 1e-2);
        let generation = json!({"max_length": 6}).to_string();
        let draft = draft.write("model/generation_config.json", &generation);
        let (metrics, output) = train(&host, &draft, 0.8).await;
        let (loss, perplexity) = (metrics["eval_loss"], metrics["eval_perplexity"]);
        assert!((perplexity - loss.exp()).abs() <= 1e-9 * perplexity, "{metrics:?}");
        assert!(metrics["eval_accuracy"] > least_accuracy, "{metrics:?}");
        assert_eq!(architecture(&output), format!("{class}ForConditionalGeneration"));
        assert_pipeline_tag(&output, "text2text-generation");
        assert_eq!(output.text("generation_config.json"), generation);
    }
}

/// A row of `datasets` for translation gives the same rows as two columns.
#[tokio::test]
async fn translations_are_read_by_their_languages() {
    let host = Host::started(1).await;
    let translations = rows::jsonl(pairs(1, 80).lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        json!({"translation": {"en": row["source"], "de": row["target"]}})
    }));
    let mut losses = Vec::new();
    for (name, rows, languages) in [
        ("columns", pairs(1, 80), [Value::Null, Value::Null]),
        ("languages", translations, [json!("en"), json!("de")]),
    ] {
        let job = TaskJob {
            data: "{train: train.jsonl, max_target_length: 6, pad_to_multiple_of: 6}",
            ..job()
        };
        let [source, target] = languages;
        let draft = job
            .draft(&host, name)
            .write("train.jsonl", rows)
            .set("data.source_lang", source)
            .set("data.target_lang", target)
            .set("train.max_steps", 3);
        host.complete(&draft).await;
        losses.push(draft.output("out").trainer_state().series("loss"));
    }
    assert_eq!(losses[0], losses[1]);
}
