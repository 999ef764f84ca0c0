//! Rows that another program tokenized train as their texts do, to the bit.

use serde_json::{Value, json};
use traind_tests::{Draft, Host, data, model};

use crate::tasks::{TaskJob, other_jobs, rows};
use crate::training::sft::{fixture, lines, set_all};

const CLS: usize = 2;
const SEP: usize = 3;
const BLOCK: usize = 16;

/// The columns that `map` of `datasets` leaves, padded as with `padding="max_length"`.
fn padded(ids: &[usize], types: &[usize], more: Value) -> Value {
    let padding = vec![0; 24 - ids.len()];
    let mask = [vec![1; ids.len()], padding.clone()].concat();
    let (ids, types) = ([ids, &padding].concat(), [types, &padding].concat());
    let mut row = json!({"input_ids": ids, "token_type_ids": types, "attention_mask": mask});
    row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    row
}

/// A text between the special tokens.
fn encoded(text: &str) -> Vec<usize> {
    [vec![CLS], model::ids(text), vec![SEP]].concat()
}

fn of_text(text: &str, more: Value) -> Value {
    let ids = encoded(text);
    padded(&ids, &vec![0; ids.len()], more)
}

fn parsed(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text<'row>(row: &'row Value, column: &str) -> &'row str {
    row[column].as_str().unwrap()
}

/// The tokens of a file's rows.
fn tokens(task: &str, file: &str) -> String {
    let rows = match task {
        "question-answering" => questions(file),
        "causal-lm" => blocks(file),
        "token-classification" => parsed(file).iter().map(words).collect(),
        "masked-lm" => {
            parsed(file).iter().map(|row| of_text(text(row, "text"), json!({}))).collect()
        }
        "seq2seq-lm" => parsed(file).iter().map(pair).collect(),
        other => panic!("no rows for {other}"),
    };
    rows::jsonl(rows.into_iter())
}

fn words(row: &Value) -> Value {
    let words = row["tokens"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let class = |label: &Value| match label.as_str().unwrap() {
        "O" => 3,
        name => data::CLASSES.iter().position(|class| name.ends_with(class)).unwrap() as i64,
    };
    let classes = row["labels"].as_array().unwrap().iter().map(class);
    let mut labels: Vec<i64> = [-100].into_iter().chain(classes).collect();
    labels.resize(24, -100);
    of_text(&words.collect::<Vec<_>>().join(" "), json!({"labels": labels}))
}

fn pair(row: &Value) -> Value {
    let source = format!("the {}", text(row, "source"));
    let labels = encoded(text(row, "target")).into_iter().map(|id| id as i64);
    of_text(&source, json!({"labels": labels.chain([-100, -100]).collect::<Vec<_>>()}))
}

fn questions(file: &str) -> Vec<Value> {
    let squad: Value = serde_json::from_str(file).unwrap();
    let row = |paragraph: &Value| {
        let (context, question) = (text(paragraph, "context"), &paragraph["qas"][0]);
        let first = encoded(text(question, "question"));
        let start = question["answers"][0]["answer_start"].as_u64().unwrap() as usize;
        let place = first.len() + context[..start].matches(' ').count();
        let second = [model::ids(context), vec![SEP]].concat();
        let types = [vec![0; first.len()], vec![1; second.len()]].concat();
        let positions = json!({"start_positions": place, "end_positions": place});
        padded(&[first, second].concat(), &types, positions)
    };
    squad["data"][0]["paragraphs"].as_array().unwrap().iter().map(row).collect()
}

/// The blocks that texts are cut into when they are put end to end.
fn blocks(file: &str) -> Vec<Value> {
    let all: Vec<usize> = parsed(file).iter().flat_map(|row| encoded(text(row, "text"))).collect();
    all.chunks_exact(BLOCK).map(|ids| json!({"input_ids": ids, "labels": ids})).collect()
}

/// The losses of all steps and of the evaluation, to the bit.
async fn losses(host: &Host, draft: &Draft) -> Vec<u64> {
    let draft = draft.clone().set("train.max_steps", 3);
    let history = host.complete(&draft).await;
    let steps = history.steps().into_iter().map(|step| step.loss.to_bits());
    steps.chain([history.job.metrics["eval_loss"].to_bits()]).collect()
}

#[tokio::test]
async fn rows_of_every_task_train_as_their_texts() {
    let host = Host::started(1).await;
    for job in other_jobs() {
        let mut texts = whole(&host, &job, "texts");
        if job.task == "question-answering" {
            // The loss is taken over the padding of rows.
            texts = texts.set("data.pad_to_max_length", true);
        }
        let texts = losses(&host, &texts).await;
        let tokens = of_tokens(&host, &job, "tokens");
        assert_eq!(losses(&host, &tokens).await, texts, "{}", job.task);
    }
}

/// The draft of a job whose questions have one window each.
fn whole(host: &Host, job: &TaskJob, name: &str) -> Draft {
    let draft = job.draft(host, &format!("{name}-{}", job.task));
    if job.task == "question-answering" { draft.set("data.max_length", 24) } else { draft }
}

/// The draft of a job with the tokens of its rows.
fn of_tokens(host: &Host, job: &TaskJob, name: &str) -> Draft {
    let files = job.files.iter().map(|(name, file)| (*name, tokens(job.task, file)));
    files.fold(whole(host, job, name), |draft, (name, rows)| {
        let split = name.split('.').next().unwrap();
        let name = format!("{split}.tokens.jsonl");
        draft.write(&name, rows).set(&format!("data.{split}"), &name)
    })
}

/// The defaults of lengths, which depend on the tokenizer, are those of texts: rows that are tokens already have up to
/// the model's positions.
#[tokio::test]
async fn rows_may_be_longer_than_the_defaults_of_lengths() {
    let host = Host::started(1).await;
    for job in other_jobs() {
        let given = of_tokens(&host, &job, "given").set("data.doc_stride", 2);
        let config = json!({"tokenizer_class": "BertTokenizer", "model_max_length": 6});
        let mut by_default = of_tokens(&host, &job, "default")
            .set("data.doc_stride", 2)
            .write("model/tokenizer_config.json", config.to_string());
        for length in ["max_length", "block_size", "max_source_length", "max_target_length"] {
            by_default = by_default.set(&format!("data.{length}"), "null");
        }
        let expect = losses(&host, &given).await.into_iter().map(f64::from_bits);
        let found = losses(&host, &by_default).await.into_iter().map(f64::from_bits);
        // Batches may be padded to other lengths, which rounds otherwise.
        for (found, expect) in found.zip(expect) {
            assert!((found - expect).abs() < 1e-6 * expect, "{}: {found}, {expect}", job.task);
        }
    }
}

/// Sources may have more than 1024 tokens, and targets more than 128.
#[tokio::test]
async fn sources_and_targets_may_be_long() {
    let host = Host::started(1).await;
    let job = other_jobs().into_iter().find(|job| job.task == "seq2seq-lm").unwrap();
    let row = json!({"input_ids": vec![7; 1030], "labels": vec![8; 131]});
    let rows = rows::jsonl(std::iter::once(row));
    let mut found = Vec::new();
    for (name, source, target) in [("given", "1030", "131"), ("default", "null", "null")] {
        let draft = of_tokens(&host, &job, name)
            .write("train.tokens.jsonl", &rows)
            .set("data.validation", "train.tokens.jsonl")
            .set("data.max_source_length", source)
            .set("data.max_target_length", target);
        found.push(losses(&host, &draft).await);
    }
    assert_eq!(found[0], found[1]);
}

#[tokio::test]
async fn classes_are_in_the_column_labels() {
    let host = Host::started(1).await;
    let rows = data::rows(5, 24, 6);
    let class = |name| data::CLASSES.iter().position(|class| *class == name).unwrap();
    let texts = rows.iter().map(|(text, name)| json!({"text": text, "label": class(*name)}));
    let tokens = rows.iter().map(|(text, name)| of_text(text, json!({"labels": class(*name)})));
    let draft = |name: &str, rows: String| {
        Draft::new(&host, name)
            .write("rows.jsonl", rows)
            .set("data.train", "rows.jsonl")
            .set("data.validation", "rows.jsonl")
            .set("data.label_map", "null")
    };
    let of_texts = losses(&host, &draft("texts", rows::jsonl(texts))).await;
    assert_eq!(losses(&host, &draft("tokens", rows::jsonl(tokens))).await, of_texts);
}

#[tokio::test]
async fn words_are_not_masked_as_a_whole() {
    let host = Host::started(1).await;
    let job = other_jobs().into_iter().find(|job| job.task == "masked-lm").unwrap();
    let draft = job
        .draft(&host, "whole")
        .write("tokens.jsonl", tokens("masked-lm", &job.files[0].1))
        .set("data.train", "tokens.jsonl")
        .set("data.whole_word_mask", true);
    let job = host.run(&draft).await.job;
    let failure = job.failure.unwrap().message;
    let expect = "data.whole_word_mask of the job file";
    assert!(failure.starts_with(expect) && failure.contains("tokenized already"), "{failure}");
}

/// Places of answers in the padding, behind the row and behind the batch, and targets that are no labels in the middle:
/// `scripts/fixtures/tokenized_rows.py` writes the rows, and what the Trainer logs of them.
#[tokio::test]
async fn losses_are_those_of_the_trainer() {
    let host = Host::started_optimized(2).await;
    let fixture = fixture("tokenized_rows.json");
    for (name, run) in fixture["runs"].as_object().unwrap() {
        check_beside_the_trainer(&host, name, 1, &fixture["train"], run).await;
    }
    let two_cores = "padded-answers";
    let run = &fixture["runs"][two_cores];
    check_beside_the_trainer(&host, two_cores, 2, &fixture["train"], run).await;
}

/// Compares the losses of all steps and of the evaluation behind them.
async fn check_beside_the_trainer(host: &Host, name: &str, cores: u64, train: &Value, run: &Value) {
    let [task, of_model] = ["task", "fixture"].map(|key| run[key].as_str().unwrap());
    let rows = lines(run["rows"].as_array().unwrap());
    let data = "{train: rows.jsonl, validation: rows.jsonl}";
    let draft = Draft::new(host, &format!("{name}-{cores}"))
        .of_task(task, of_model, data)
        .write("rows.jsonl", rows)
        .set("train.train_sampling_strategy", "sequential")
        .set("data.ignore_pad_token_for_loss", &run["ignore_pad_token_for_loss"]);
    let tokenizer =
        json!({"tokenizer_class": "BertTokenizer", "padding_side": run["padding_side"]});
    let draft = draft.write("model/tokenizer_config.json", tokenizer.to_string());
    let mut draft = set_all(draft, "train", train).set("resources.cores", cores);
    for rows in ["train", "eval"].map(|of| format!("per_device_{of}_batch_size")) {
        draft = draft.set(&format!("train.{rows}"), train[&rows].as_u64().unwrap() / cores);
    }
    let history = host.complete(&draft).await;
    let steps = history.steps().into_iter().map(|step| step.loss);
    let found: Vec<f64> = steps.chain([history.job.metrics["eval_loss"]]).collect();
    let expect: Vec<f64> =
        run["losses"].as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect();
    assert_eq!(found.len(), expect.len(), "{name}");
    for (found, expect) in found.iter().zip(&expect) {
        assert!(
            (found - expect).abs() < 2e-5 * expect,
            "{name}: {found}, the Trainer has {expect}"
        );
    }
}
