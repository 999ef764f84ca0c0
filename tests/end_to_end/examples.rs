//! The job files of `docs/examples`, each run with a tiny model and a few rows.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use traind_tests::bucket::Bucket;
use traind_tests::hub::{Hub, MODEL};
use traind_tests::images::png;
use traind_tests::{Draft, Host, data, model};

use crate::remote::environment;
use crate::tasks::rows;

const TRAIN_ROWS: usize = 32;
const EVAL_ROWS: usize = 9;
const STEPS: u64 = 2;

/// Values that make an example small, set where its file has the key.
const SMALLER: [(&str, u64); 11] = [
    ("data.max_source_length", 10),
    ("data.max_target_length", 6),
    ("data.max_length", 10),
    ("data.doc_stride", 2),
    ("data.block_size", 8),
    ("train.per_device_train_batch_size", 2),
    ("train.per_device_eval_batch_size", 4),
    ("train.eval_steps", 1),
    ("train.save_steps", 1),
    ("train.warmup_steps", 1),
    ("train.max_steps", STEPS),
];

/// Marks what the assistant says.
const CHAT_TEMPLATE: &[u8] = b"{% for message in messages %}{% if message.role == 'assistant' %}\
    {% generation %}{{ message.content + '[SEP]' }}{% endgeneration %}\
    {% else %}{{ '[CLS]' + message.content }}{% endif %}{% endfor %}";

/// Names the token that answers end with.
const CHAT_TOKENS: &[u8] = br#"{"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "eos_token": "[SEP]"}"#;

/// A file's path from the job's folder, and its content.
type DataFile = (&'static str, Vec<u8>);

struct Example {
    name: &'static str,
    /// The fixture that stands in for the model.
    fixture: &'static str,
    data: Vec<DataFile>,
}

impl Example {
    fn new(name: &'static str, fixture: &'static str, data: Vec<DataFile>) -> Example {
        Example { name, fixture, data }
    }

    fn job_file(&self) -> String {
        fs::read_to_string(folder().join(self.name).with_extension("yaml")).unwrap()
    }

    /// The example with its model and data in a folder of the host.
    fn draft(&self, host: &Host) -> Draft {
        let job_file = self.job_file();
        let mut draft = Draft::of_job_file(host, self.name, &job_file);
        if let Some(path) = value(&job_file, "name_or_path").filter(|path| path.starts_with('.')) {
            model::write_fixture(&draft.path(path), self.fixture);
        }
        for (path, content) in &self.data {
            fs::create_dir_all(draft.path(path).parent().unwrap()).unwrap();
            draft = draft.write(path, content);
        }
        for (field, small) in SMALLER {
            let key = field.split('.').next_back().unwrap();
            if value(&job_file, key).is_some() {
                draft = draft.set(field, small);
            }
        }
        match trains(&job_file) {
            true => draft.set("train.max_steps", STEPS),
            false => draft,
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples")
}

/// The first value of a key, without its comment.
fn value<'a>(job_file: &'a str, key: &str) -> Option<&'a str> {
    let mut values = job_file.lines().filter_map(|line| line.trim().strip_prefix(key));
    values.find_map(|rest| rest.strip_prefix(": ")?.split_whitespace().next())
}

fn trains(job_file: &str) -> bool {
    value(job_file, "do_train") != Some("false")
}

fn examples() -> Vec<Example> {
    let squad = |seed, count| rows::squad(seed, count, true).into_bytes();
    let words = |seed, count, names| renamed(&rows::words(seed, count), names);
    let lines = |seed, count, names| renamed(&rows::lines(seed, count), names);
    let ner = [("labels", "ner_tags")];
    let text = || texts().into_bytes();
    vec![
        Example::new("best-model", "bert-sequence-classification", {
            let file = |seed, count| numbered(["text", "label"], seed, count, |class| class).0;
            vec![
                ("data/train.csv", file(1, TRAIN_ROWS)),
                ("data/dev.csv", file(2, EVAL_ROWS)),
                ("data/test.csv", file(3, EVAL_ROWS)),
            ]
        }),
        Example::new("causal-lm", "gpt2-causal-lm", {
            vec![("data/train.txt", text()), ("data/dev.txt", text())]
        }),
        Example::new("chat", "llama-causal-lm", {
            let message = |role, content: &str| json!({"role": role, "content": content});
            let row = |text: String, _| {
                let (answer, question) = text.split_once(' ').unwrap();
                json!({"messages": [message("user", question), message("assistant", answer)]})
            };
            vec![
                ("llama-chat/chat_template.jinja", CHAT_TEMPLATE.to_vec()),
                ("data/train.jsonl", jsonl(1, TRAIN_ROWS, row)),
                ("data/dev.jsonl", jsonl(2, EVAL_ROWS, row)),
            ]
        }),
        Example::new("preferences", "llama-causal-lm", pairs_of_answers()),
        Example::new("reward", "llama-causal-lm", pairs_of_answers()),
        Example::new("simpo", "llama-causal-lm", pairs_of_answers()),
        Example::new("kto", "llama-causal-lm", {
            let row = |text: String, class| {
                let (first, others) = text.split_once(' ').unwrap();
                let (prompt, completion) = (says("user", first), says("assistant", others));
                json!({"prompt": prompt, "completion": completion, "label": class % 2 == 0})
            };
            vec![
                ("llama-chat/chat_template.jinja", CHAT_TEMPLATE.to_vec()),
                ("llama-chat/tokenizer_config.json", CHAT_TOKENS.to_vec()),
                ("data/completions.jsonl", jsonl(1, TRAIN_ROWS, row)),
                ("data/completions-dev.jsonl", jsonl(2, EVAL_ROWS, row)),
            ]
        }),
        Example::new("embeddings", "bert-sequence-classification", {
            let row = |text: String, _| {
                let (question, answer) = text.split_once(' ').unwrap();
                json!({"question": question, "answer": answer})
            };
            vec![
                ("data/questions.jsonl", jsonl(1, TRAIN_ROWS, row)),
                ("data/questions-dev.jsonl", jsonl(2, EVAL_ROWS, row)),
            ]
        }),
        Example::new("mixed-embeddings", "bert-sequence-classification", {
            let pair = |text: String, _| {
                let (question, answer) = text.split_once(' ').unwrap();
                json!({"question": question, "answer": answer})
            };
            let scored = |text: String, row: usize| {
                let (one, other) = text.split_once(' ').unwrap();
                json!({"one": one, "other": other, "score": (row % 3) as f64 / 2.0})
            };
            let triple = |text: String, _| {
                let (anchor, positive) = text.split_once(' ').unwrap();
                json!({"anchor": anchor, "positive": positive, "negative": text})
            };
            vec![
                ("data/questions.jsonl", jsonl(1, TRAIN_ROWS, pair)),
                ("data/similar.jsonl", jsonl(2, TRAIN_ROWS, scored)),
                ("data/triples.jsonl", jsonl(3, TRAIN_ROWS, triple)),
                ("data/similar-dev.jsonl", jsonl(4, EVAL_ROWS, scored)),
            ]
        }),
        Example::new("reranker", "bert-regression", {
            let row = |text: String, _| {
                let (query, passage) = text.split_once(' ').unwrap();
                json!({"query": query, "positive": passage, "negative": "the cat"})
            };
            vec![
                ("data/passages.jsonl", jsonl(1, TRAIN_ROWS, row)),
                ("data/passages-dev.jsonl", jsonl(2, EVAL_ROWS, row)),
            ]
        }),
        Example::new("embed", "distilbert-masked-lm", {
            vec![("data/texts.jsonl", jsonl(1, EVAL_ROWS, |text, _| json!({"text": text})))]
        }),
        Example::new("divided-layers", "llama-causal-lm", {
            vec![("data/train.jsonl", lines(1, TRAIN_ROWS, [("text", "text")]))]
        }),
        Example::new("from-scratch", "bert-masked-lm", vec![("data/a.txt", text())]),
        Example::new("full-shard", "gpt2-causal-lm", {
            vec![("data/train.jsonl", lines(1, TRAIN_ROWS, [("text", "document")]))]
        }),
        Example::new("stages", "gpt2-causal-lm", {
            vec![("data/train.jsonl", lines(1, TRAIN_ROWS, [("text", "text")]))]
        }),
        Example::new("hub-and-bucket", "bert-sequence-classification", vec![]),
        Example::new("image-classification", "vit-image-classification", {
            let image = |path, seed| (path, png(12, [seed, 90, 160 - seed], seed));
            vec![
                image("data/train/daisies/a.png", 10),
                image("data/train/daisies/b.png", 20),
                image("data/train/roses/a.png", 120),
                image("data/train/tulips/c.png", 60),
                image("data/dev/daisies/d.png", 30),
                image("data/dev/roses/d.png", 130),
            ]
        }),
        Example::new("long-run", "roberta-sequence-classification", {
            let train = numbered(["text", "label"], 1, TRAIN_ROWS, |class| class).0;
            vec![("data/train.csv", train)]
        }),
        Example::new("lora", "llama-causal-lm", {
            vec![("data/train.txt", text()), ("data/dev.txt", text())]
        }),
        Example::new("replaced-tokens", "electra-masked-lm", vec![("data/a.txt", text())]),
        Example::new("masked-lm", "bert-masked-lm", {
            vec![("data/a.txt", text()), ("data/b.txt", text())]
        }),
        Example::new("mixed-precision", "gpt2-causal-lm", {
            vec![("data/train.jsonl", lines(1, TRAIN_ROWS, [("text", "document")]))]
        }),
        Example::new("multi-label", "distilbert-multi-label", {
            let topics = |class: usize| json!(["politics", "science", "sports"][class..]);
            let row =
                |text, class| json!({"content": text, "url": "nowhere", "topics": topics(class)});
            vec![("data/train.jsonl", jsonl(1, TRAIN_ROWS, row))]
        }),
        Example::new("predict", "bert-token-classification", {
            let row = |text: String, _| json!({"words": text.split(' ').collect::<Vec<_>>()});
            vec![("data/unlabelled.jsonl", jsonl(1, EVAL_ROWS, row))]
        }),
        Example::new("question-answering", "bert-question-answering", {
            vec![
                ("data/train-v2.0.json", squad(1, TRAIN_ROWS)),
                ("data/dev-v2.0.json", squad(2, EVAL_ROWS)),
            ]
        }),
        Example::new("regression", "bert-regression", {
            let row = |text, class| json!({"sentence1": text, "sentence2": "the cat", "score": class as f64});
            vec![
                ("data/train.jsonl", jsonl(1, TRAIN_ROWS, row)),
                ("data/dev.jsonl", jsonl(2, EVAL_ROWS, row)),
            ]
        }),
        Example::new("sequence-classification", "bert-sequence-classification", {
            let stars = |class| 2 * class + 1;
            vec![
                ("data/train.csv", numbered(["review", "stars"], 1, TRAIN_ROWS, stars).0),
                ("data/dev.parquet", numbered(["review", "stars"], 2, EVAL_ROWS, stars).1),
            ]
        }),
        Example::new("summarization", "t5-gated-seq2seq-lm", {
            let row = |text: String, _| json!({"article": text, "summary": text.split(' ').next()});
            vec![
                ("data/train.jsonl", jsonl(1, TRAIN_ROWS, row)),
                ("data/dev.jsonl", jsonl(2, EVAL_ROWS, row)),
            ]
        }),
        Example::new("token-classification", "bert-masked-lm", {
            vec![
                ("data/train.jsonl", words(1, TRAIN_ROWS, ner)),
                ("data/dev.jsonl", words(2, EVAL_ROWS, ner)),
            ]
        }),
    ]
}

fn class_number(name: &str) -> usize {
    data::CLASSES.iter().position(|class| *class == name).unwrap()
}

/// Rows of two columns whose labels are numbers, as CSV and as Parquet.
fn numbered(
    columns: [&str; 2],
    seed: u64,
    count: usize,
    number: impl Fn(usize) -> usize,
) -> (Vec<u8>, Vec<u8>) {
    let rows = data::rows(seed, count, 6).into_iter();
    let rows: Vec<(String, String)> =
        rows.map(|(text, class)| (text, number(class_number(class)).to_string())).collect();
    let lines: String = rows.iter().map(|(text, label)| format!("{text},{label}\n")).collect();
    let csv = format!("{},{}\n{lines}", columns[0], columns[1]);
    (csv.into_bytes(), data::parquet_of(columns, &rows))
}

fn jsonl(seed: u64, count: usize, row: impl Fn(String, usize) -> serde_json::Value) -> Vec<u8> {
    let rows = data::rows(seed, count, 6).into_iter();
    rows::jsonl(rows.map(|(text, class)| row(text, class_number(class)))).into_bytes()
}

/// A conversation of one message.
fn says(role: &str, content: &str) -> serde_json::Value {
    json!([{"role": role, "content": content}])
}

/// A chat template with its tokens, and rows of a prompt with a better and a worse answer.
fn pairs_of_answers() -> Vec<DataFile> {
    let row = |text: String, _| {
        let (first, others) = text.split_once(' ').unwrap();
        let [chosen, rejected] = [others, first].map(|answer| says("assistant", answer));
        json!({"prompt": says("user", first), "chosen": chosen, "rejected": rejected})
    };
    vec![
        ("llama-chat/chat_template.jinja", CHAT_TEMPLATE.to_vec()),
        ("llama-chat/tokenizer_config.json", CHAT_TOKENS.to_vec()),
        ("data/pairs.jsonl", jsonl(1, TRAIN_ROWS, row)),
        ("data/pairs-dev.jsonl", jsonl(2, EVAL_ROWS, row)),
    ]
}

/// JSON lines with other names for their columns.
fn renamed<const N: usize>(lines: &str, names: [(&str, &str); N]) -> Vec<u8> {
    let key = |name: &str| format!("\"{name}\":");
    let rename = |lines: String, (from, to): (&str, &str)| lines.replace(&key(from), &key(to));
    names.into_iter().fold(lines.to_owned(), rename).into_bytes()
}

fn texts() -> String {
    data::rows(1, TRAIN_ROWS, 6).into_iter().map(|(text, _)| text + "\n").collect()
}

/// Trains or predicts to the end, and checks what the job leaves.
async fn check(host: &Host, draft: &Draft, trains: bool) {
    let history = host.complete(draft).await;
    let steps = if trains { STEPS } else { 0 };
    assert_eq!(history.finished().steps, steps, "{:?}", history.job);
    let output = PathBuf::from(&history.finished().output_dir);
    let results = match trains {
        true => ["model.safetensors", "adapter_model.safetensors"].as_slice(),
        false => &["predictions.parquet"],
    };
    let exists = results.iter().any(|result| output.join(result).is_file());
    assert!(exists, "{results:?} of {:?}", history.job);
}

#[tokio::test]
async fn every_example_runs() {
    let host = Host::started(2).await;
    for example in examples().iter().filter(|example| example.name != "hub-and-bucket") {
        check(&host, &example.draft(&host), trains(&example.job_file())).await;
    }
}

#[tokio::test]
async fn the_example_of_a_hub_and_a_bucket_runs() {
    let examples = examples();
    let example = examples.iter().find(|example| example.name == "hub-and-bucket").unwrap();
    let folder = tempfile::tempdir().unwrap();
    model::write_fixture(folder.path(), example.fixture);
    let hub = Hub::start(folder.path(), None);
    let file = |seed, count| numbered(["text", "label"], seed, count, |class| class);
    let bucket = Bucket::start(&[
        ("train/a.csv", file(1, TRAIN_ROWS).0),
        ("train/b.csv", file(2, TRAIN_ROWS).0),
        ("validation.parquet", file(3, EVAL_ROWS).1),
    ]);
    let known = bucket.environment().into_iter().chain(environment(&hub, None)).collect();
    let host = Host::started_with_environment(1, known).await;
    let draft = example.draft(&host).set("model.name_or_path", MODEL);
    check(&host, &draft, true).await;
}

#[test]
fn every_file_is_run_and_listed() {
    let names = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let files: BTreeSet<String> = names
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let run: BTreeSet<String> = examples().iter().map(|example| example.name.to_owned()).collect();
    assert_eq!(run, files, "add the example to tests/end_to_end/examples.rs");
    let index = fs::read_to_string(folder().join("README.md")).unwrap();
    for name in &files {
        assert!(index.contains(&format!("({name}.yaml)")), "docs/examples/README.md lacks {name}");
    }
}
