//! Models that read a text and write one.

use std::path::Path;

use serde_json::{Value, json};
use traind_tests::{Host, data};

use super::{TaskJob, architecture, assert_pipeline_tag, predictions, rows, train};

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
    let table = [("t5-gated-seq2seq-lm", "T5", 0.3, 0, 1), ("bart-seq2seq-lm", "Bart", 0.2, 3, 2)];
    for (fixture, class, least_accuracy, start, beams) in table {
        let draft = TaskJob { fixture, ..job() }
            .draft(&host, fixture)
            .set("resources.cores", 2)
            .set("train.num_train_epochs", 12)
            .set("train.learning_rate", 1e-2)
            .set("data.test", "validation.jsonl")
            .set("train.do_predict", true)
            .set("train.predict_with_generate", true)
            .set("train.generation_num_beams", beams)
            .set("train.generation_config", "{no_repeat_ngram_size: 1, length_penalty: 2}");
        let generation = json!({"max_length": 6, "min_new_tokens": 4, "suppress_tokens": [0, 1, 2, 4], "eos_token_id": 3, "decoder_start_token_id": start});
        let generation = generation.to_string();
        let draft = draft.write("model/generation_config.json", &generation);
        let (metrics, output) = train(&host, &draft, 0.8).await;
        let (loss, perplexity) = (metrics["eval_loss"], metrics["eval_perplexity"]);
        assert!((perplexity - loss.exp()).abs() <= 1e-9 * perplexity, "{metrics:?}");
        assert!(metrics["eval_accuracy"] > least_accuracy, "{metrics:?}");
        assert_eq!(architecture(&output), format!("{class}ForConditionalGeneration"));
        assert_pipeline_tag(&output, "text2text-generation");
        for split in ["eval", "test"] {
            let metric = |name: &str| metrics[&format!("{split}_{name}")];
            assert!(metric("rouge1") >= metric("rouge2"), "{metrics:?}");
            assert!(metric("bleu") >= 0.0 && metric("gen_len") > 1.0, "{metrics:?}");
        }
        let predictions = predictions::texts(&predictions::read(&output), "prediction");
        assert!(predictions.iter().any(|text| text.contains(' ')), "{predictions:?}");
        assert_eq!(predictions, generated(&host, output.folder(), beams), "{fixture}");
        // By the job's setting; the model's own allow it.
        assert!(!predictions.iter().any(|text| repeats(text)), "{predictions:?}");
        assert_eq!(output.text("generation_config.json"), generation);
    }
}

/// BART has 16 positions, fewer than targets may have by default.
#[tokio::test]
async fn targets_are_cut_to_the_positions_of_the_model_with_a_warning() {
    let host = Host::started(1).await;
    let long = |count: usize| {
        let texts = data::rows(3, count, 24).into_iter();
        rows::jsonl(texts.map(|(text, _)| json!({"source": "the cat", "target": text})))
    };
    let mut losses = Vec::new();
    for (length, warnings) in [("16", 0), ("null", 1)] {
        let job = TaskJob {
            fixture: "bart-seq2seq-lm",
            data: "{train: train.jsonl, max_source_length: 12}",
            files: vec![("train.jsonl", long(8))],
            ..job()
        };
        let draft = job
            .draft(&host, &format!("target-{length}"))
            .set("data.max_target_length", length)
            .set("train.max_steps", 2);
        let history = host.complete(&draft).await;
        let found = history.warnings("MAX_LENGTH_CUT");
        assert_eq!(found.len(), warnings, "{found:?}");
        let expect = "the default of data.max_target_length is 128, and the model has 16 positions: texts are \
                      cut to 16";
        assert!(found.iter().all(|warning| *warning == expect), "{found:?}");
        losses.push(history.steps().iter().map(|step| step.loss).collect::<Vec<_>>());
    }
    assert_eq!(losses[0], losses[1]);
}

/// Returns whether a word occurs twice.
fn repeats(text: &str) -> bool {
    let mut words: Vec<&str> = text.split(' ').collect();
    let count = words.len();
    words.sort_unstable();
    words.dedup();
    words.len() < count
}

/// The texts that `traind generate` writes with a trained model for the rows of validation, in one
/// batch on one core.
fn generated(host: &Host, model: &Path, beams: u32) -> Vec<String> {
    let rows = pairs(2, 31);
    let sources = rows.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        format!("the {}", row["source"].as_str().unwrap())
    });
    let sources: Vec<String> = sources.collect();
    let beams = beams.to_string();
    let mut arguments = vec!["generate", ".", "--num-beams", &beams, "-o", "json"];
    arguments.extend(["--no-repeat-ngram-size", "1", "--length-penalty", "2"]);
    arguments.extend(sources.iter().map(String::as_str));
    let output = host.cli(model, &arguments);
    let texts: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    texts.iter().map(|text| text["text"].as_str().unwrap().trim().to_owned()).collect()
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

/// Cores that divide the positions of sources generate what one core does.
#[tokio::test]
async fn targets_are_generated_where_cores_divide_positions() {
    let host = Host::started(2).await;
    for fixture in ["t5-gated-seq2seq-lm", "bart-seq2seq-lm"] {
        let mut texts = Vec::new();
        for cores in [1, 2] {
            let draft = TaskJob { fixture, ..job() }
                .draft(&host, &format!("{fixture}-{cores}"))
                .set("resources.cores", cores)
                .set("parallel.tensor", cores)
                .set("parallel.sequence_parallel", cores > 1)
                .set("train.max_steps", 3)
                .set("data.test", "validation.jsonl")
                .set("train.do_predict", true)
                .set("train.predict_with_generate", true)
                .set("train.generation_max_length", 5);
            host.complete(&draft).await;
            texts.push(predictions::texts(&predictions::read(&draft.output("out")), "prediction"));
        }
        assert!(texts[0].iter().any(|text| !text.is_empty()), "{fixture}");
        assert_eq!(texts[0], texts[1], "{fixture}");
    }
}
