//! The table of invalid inputs.

use std::fs;

use serde_json::{Value, json};
use traind_proto::reasons;
use traind_tests::{Draft, data, model};

use super::End::{self, Failed, Refused};

pub(super) struct Case {
    pub name: &'static str,
    /// Makes one thing of a valid job invalid.
    pub spoil: fn(Draft) -> Draft,
    pub end: End,
    pub reason: &'static str,
    /// Texts that the message or its fields must contain.
    pub says: &'static [&'static str],
}

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    // The job file.
    Case { name: "unknown key", spoil: |draft| draft.edit("learning_rate", "learning_rat"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["train.learning_rat", "train.learning_rate", "line 12"] },
    Case { name: "wrong type", spoil: |draft| draft.edit("num_train_epochs: 2", "num_train_epochs: two"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["train.num_train_epochs", "two", "line 10"] },
    Case { name: "negative batch", spoil: |draft| draft.edit("batch_size: 8", "batch_size: -8"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["train.per_device_train_batch_size", "-8", "line 11"] },
    Case { name: "no yaml", spoil: |draft| draft.edit("model:", "model: ["), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["line"] },
    Case { name: "missing data file", spoil: |draft| draft.set("data.train", "absent.csv"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "absent.csv"] },
    Case { name: "missing model folder", spoil: |draft| draft.set("model.name_or_path", "./absent"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "absent"] },
    Case { name: "missing checkpoint to resume from", spoil: |draft| draft.set("train.resume_from_checkpoint", "absent/checkpoint-5"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["train.resume_from_checkpoint", "there is no folder", "absent/checkpoint-5"] },
    Case { name: "variable of a shell", spoil: |draft| draft.set("output_dir", "${HOME}/out"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["output_dir", "`${HOME}` are not expanded"] },
    Case { name: "variable as a model", spoil: |draft| draft.set("model.name_or_path", "$MODELS/bert"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "`$MODELS` are not expanded"] },
    Case { name: "NUL in a path", spoil: |draft| draft.edit("output_dir: out", "output_dir: \"a\\0b\""), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["output_dir", "NUL"] },
    Case { name: "name too long", spoil: |draft| draft.set("checkpoint_dir", "x".repeat(300)), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["checkpoint_dir", "300 bytes", "at most 255"] },
    Case { name: "dangling link", spoil: dangling, end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["output_dir", "is a link to nowhere, which does not exist"] },
    Case { name: "output below a file", spoil: |draft| draft.set("output_dir", "train.csv/out"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["output_dir", "train.csv exists and is not a folder"] },
    Case { name: "more cores than there are", spoil: |draft| draft.set("resources.cores", 3), end: Refused, reason: reasons::CORES_EXCEEDED, says: &["2 cpu cores", "3"] },
    Case { name: "more tokens than positions", spoil: |draft| draft.set("data.max_length", 33), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.max_length", "33", "32 positions"] },
    Case { name: "labels beyond num_labels", spoil: |draft| numbered(draft, 3), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.csv, row 1 (line 3)", "label 3", "num_labels"] },

    // Data.
    Case { name: "empty file", spoil: |draft| write(draft, "train.csv", ""), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.csv", "the file is empty"] },
    Case { name: "no rows", spoil: |draft| write(draft, "train.csv", "text,label\n"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.csv", "no rows"] },
    Case { name: "missing column", spoil: |draft| draft.set("data.text", "body"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.csv", "body", "text", "(data.text names the column)"] },
    Case { name: "row with too many fields", spoil: |draft| append(draft, "train.csv", b"one,two,three\n"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.csv, row 60", "3 fields"] },
    Case { name: "invalid UTF-8", spoil: |draft| append(draft, "train.csv", b"\xff\xfe cat,animal\n"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.csv, row 60", "text", "UTF-8"] },
    Case { name: "quote never closed", spoil: |draft| append(draft, "train.csv", b"\"cat,animal\n"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.csv, row 60", "quote"] },
    Case { name: "label outside label_map", spoil: |draft| append(draft, "train.csv", b"rock,mineral\n"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.csv, row 60", "mineral", "label_map", "animal"] },
    Case { name: "validation label outside label_map", spoil: |draft| parquet_label(draft), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.validation", "validation.parquet, row 1", "mineral"] },
    Case { name: "truncated parquet", spoil: |draft| cut(draft, "validation.parquet"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.validation", "validation.parquet"] },
    Case { name: "parquet with a flipped page header", spoil: |draft| flip(draft, "validation.parquet", |_| 4), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.validation", "validation.parquet"] },
    Case { name: "parquet with a flipped footer", spoil: |draft| flip_footer(draft, "validation.parquet"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.validation", "validation.parquet"] },
    Case { name: "unknown data format", spoil: |draft| write(draft, "train.xml", "<a/>").set("data.train", "train.xml"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.xml", "csv", "parquet"] },

    // Tasks.
    Case { name: "answer not in its context", spoil: |draft| question(draft, "red old dog", 4, "dog"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.jsonl, row 0", "answer \"dog\"", "character 4"] },
    Case { name: "no room for a context", spoil: |draft| question(draft, "red old dog", 8, "dog").edit("doc_stride: 2", "doc_stride: 12"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.doc_stride", "12", "max_length"] },
    Case { name: "more labels than words", spoil: |draft| words(draft, r#"{"tokens": ["dog"], "labels": ["O", "O"]}"#), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.jsonl, row 0", "2 labels for 1 word"] },
    Case { name: "words that are a text", spoil: |draft| words(draft, r#"{"tokens": "dog", "labels": ["O"]}"#), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.jsonl, row 0", "list of texts"] },
    Case { name: "several classes that are one", spoil: |draft| draft.set("model.problem_type", "multi_label_classification"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.csv, row 0", "list of labels"] },
    Case { name: "number that is none", spoil: |draft| draft.edit("  label_map: [animal, fruit, tool]\n", "").set("model.num_labels", 1).set("model.ignore_mismatched_sizes", true), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.csv, row 0", "not a number"] },
    Case { name: "numbers and nothing output of them", spoil: |draft| write(draft.edit("  label_map: [animal, fruit, tool]\n", ""), "train.csv", "text,label\ncat,0.5\ndog,1\n"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "\"label\"", "0.5", "num_labels"] },
    Case { name: "one class", spoil: |draft| write(draft.edit("  label_map: [animal, fruit, tool]\n", ""), "train.csv", "text,label\ncat,animal\ndog,animal\n"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "\"label\"", "animal", "num_labels"] },
    Case { name: "row of more tokens than positions", spoil: |draft| words(draft, &format!(r#"{{"input_ids": {0:?}, "labels": {0:?}}}"#, [1; 33])), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.jsonl, row 0 (line 1)", "has 33 tokens, and rows may have 32 (the positions of the model)"] },
    Case { name: "block longer than the positions", spoil: |draft| causal(draft, 17), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.block_size", "17", "16 positions"] },
    Case { name: "text shorter than a block", spoil: |draft| write(causal(draft, 16), "train.jsonl", "{\"text\": \"cat\"}\n"), end: Failed, reason: reasons::JOB_FILE_INVALID, says: &["data.block_size", "block of 16"] },
    Case { name: "task that the family lacks", spoil: |draft| distilbert(draft).edit("sequence-classification", "causal-lm").edit("  label_map: [animal, fruit, tool]\n", ""), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "distilbert", "causal-lm", "masked-lm"] },
    Case { name: "conversation without a template", spoil: |draft| chat(draft, "gpt2-causal-lm"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "train.jsonl, row 0", "messages", "chat_template.jinja"] },
    Case { name: "template without an end", spoil: |draft| write(chat(draft, "gpt2-causal-lm"), "model/chat_template.jinja", "{% for %}"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "model/chat_template.jinja", "line 1"] },
    Case { name: "template that compares lists forever", spoil: |draft| write(chat(draft, "gpt2-causal-lm"), "model/chat_template.jinja", ENDLESS), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "train.jsonl, row 0", "messages", "takes too long"] },
    Case { name: "packing without positions", spoil: |draft| chat(draft, "bert-causal-lm").set("data.packing", true), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.packing_strategy", "bert", "wrapped"] },
    Case { name: "prediction without rows", spoil: |draft| draft.set("train.do_predict", true), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["train.do_predict", "data.test"] },
    Case { name: "smoothed numbers", spoil: |draft| draft.set("model.problem_type", "regression").edit("  label_map: [animal, fruit, tool]\n", "").set("train.label_smoothing_factor", 0.1), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["train.label_smoothing_factor"] },
    Case { name: "unknown cast", spoil: |draft| draft.edit("  train: train.csv", "  train: train.csv\n  columns: {cast: {label: int32}}"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.columns.cast.label", "int32", "int64"] },
    Case { name: "value that cannot be cast", spoil: |draft| draft.edit("  train: train.csv", "  train: train.csv\n  columns: {cast: {label: int64}}"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.train", "train.csv, row 0", "label", "int64"] },
    Case { name: "metric of another task", spoil: |draft| draft.set("train.metric_for_best_model", "perplexity"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["train.metric_for_best_model", "perplexity", "accuracy"] },
    Case { name: "metric that nothing computes", spoil: |draft| draft.edit("  validation: validation.parquet\n", "").set("train.metric_for_best_model", "accuracy"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["train.metric_for_best_model", "never computed", "data.validation"] },
    Case { name: "padding beyond the positions", spoil: |draft| draft.set("data.pad_to_multiple_of", 48), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["data.pad_to_multiple_of", "48", "32"] },

    // The model folder.
    Case { name: "config not JSON", spoil: |draft| write(draft, "model/config.json", "{"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "model/config.json", "JSON"] },
    Case { name: "unknown model type", spoil: |draft| configure(draft, "model_type", json!("elmo")), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "model/config.json", "elmo", "bert"] },
    Case { name: "heads that do not divide", spoil: |draft| configure(draft, "num_attention_heads", json!(3)), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "model/config.json", "num_attention_heads"] },
    Case { name: "fewer layers than none", spoil: |draft| configure(draft, "num_hidden_layers", json!(-1)), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "num_hidden_layers", "an integer from 1"] },
    Case { name: "no heads", spoil: |draft| configure(draft, "num_attention_heads", json!(0)), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "num_attention_heads", "an integer from 1"] },
    Case { name: "unknown config override", spoil: |draft| draft.set("model.config_overrides", "{hidden_dropout: 0.1}"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["hidden_dropout", "hidden_dropout_prob"] },
    Case { name: "no weights", spoil: |draft| remove(draft, "model/model.safetensors"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "model.safetensors"] },
    Case { name: "pickled weights", spoil: |draft| write(remove(draft, "model/model.safetensors"), "model/pytorch_model.bin", ""), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "model/pytorch_model.bin", "pickled"] },
    Case { name: "head of another size", spoil: |draft| configure(draft, "type_vocab_size", json!(7)), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "token_type_embeddings", "[7, 16]"] },
    Case { name: "truncated safetensors", spoil: |draft| cut(draft, "model/model.safetensors"), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "model/model.safetensors"] },
    Case { name: "tensor of the wrong shape", spoil: |draft| weights(draft, |of| of.header[POOLER]["shape"] = json!([8, 32])), end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "model/model.safetensors", "tensor bert.pooler.dense.weight", "[8, 32]", "[16, 16]"] },
    Case { name: "no tokenizer", spoil: |draft| remove(draft, "model/tokenizer.json"), end: Failed, reason: reasons::FILE_NOT_FOUND, says: &["model/tokenizer.json"] },
    Case { name: "tokenizer not JSON", spoil: |draft| write(draft, "model/tokenizer.json", "cat dog"), end: Failed, reason: reasons::TOKENIZER_INVALID, says: &["model/tokenizer.json"] },
    Case { name: "vocabulary larger than the embedding", spoil: tokenizer_of_51, end: Refused, reason: reasons::JOB_FILE_INVALID, says: &["model.name_or_path", "51", "50", "vocab_size"] },

    // The plugin.
    Case { name: "plugin that is not there", spoil: |draft| remove(draft, PLUGIN), end: Refused, reason: reasons::PLUGIN_NOT_FOUND, says: &["cpu", "traind plugins install cpu"] },
    Case { name: "plugin that is no library", spoil: |draft| plugin(draft, b"cat"), end: Failed, reason: reasons::PLUGIN_INVALID, says: &["xla_cpu_pjrt.so"] },
    Case { name: "library that is no plugin", spoil: |draft| plugin(draft, &fs::read(c_library()).unwrap()), end: Failed, reason: reasons::PLUGIN_INVALID, says: &["xla_cpu_pjrt.so"] },

    // The numbers.
    Case { name: "infinite weights", spoil: |draft| weights(draft, |of| of.fill(POOLER, f32::INFINITY)), end: Failed, reason: reasons::LOSS_NOT_FINITE, says: &["step 1", "step=1"] },
    Case { name: "diverging loss", spoil: |draft| draft.set("train.learning_rate", 1e30).set("train.max_grad_norm", 0), end: Failed, reason: reasons::LOSS_NOT_FINITE, says: &["step 2", "step=2", "learning_rate"] },
];

const POOLER: &str = "bert.pooler.dense.weight";
const PLUGIN: &str = "../cache/plugins/cpu-0.0.1/xla_cpu_pjrt.so";

fn dangling(draft: Draft) -> Draft {
    std::os::unix::fs::symlink("nowhere", draft.path("link")).unwrap();
    draft.set("output_dir", "link/out")
}

fn write(draft: Draft, name: &str, content: impl AsRef<[u8]>) -> Draft {
    fs::write(draft.path(name), content).unwrap();
    draft
}

fn remove(draft: Draft, name: &str) -> Draft {
    fs::remove_file(draft.path(name)).unwrap();
    draft
}

fn change(draft: Draft, name: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Draft {
    let changed = change(fs::read(draft.path(name)).unwrap());
    write(draft, name, changed)
}

/// Appends rows to the train file. It has 60 rows, so the first appended one is row 60.
fn append(draft: Draft, name: &str, bytes: &[u8]) -> Draft {
    change(draft, name, |before| [&before, bytes].concat())
}

fn cut(draft: Draft, name: &str) -> Draft {
    change(draft, name, |bytes| bytes[..bytes.len() * 2 / 3].to_vec())
}

/// Flips all bits of the byte at `place`.
fn flip(draft: Draft, name: &str, place: fn(&[u8]) -> usize) -> Draft {
    change(draft, name, |mut bytes| {
        let index = place(&bytes);
        bytes[index] ^= 0xff;
        bytes
    })
}

/// A Parquet file ends with its metadata, their length and a magic number of 4 bytes each.
fn flip_footer(draft: Draft, name: &str) -> Draft {
    flip(draft, name, |bytes| {
        let length = bytes[bytes.len() - 8..].first_chunk().unwrap();
        bytes.len() - 8 - u32::from_le_bytes(*length) as usize
    })
}

/// Class numbers instead of names, one of them too large.
fn numbered(draft: Draft, num_labels: u32) -> Draft {
    let rows = format!("text,label\ncat,0\ndog,{num_labels}\nfox,2\n");
    let draft = draft.edit("  label_map: [animal, fruit, tool]\n", "");
    write(draft.set("model.num_labels", num_labels), "train.csv", rows)
}

/// A job with one question whose answer starts at a given character of its context.
fn question(draft: Draft, context: &str, start: usize, answer: &str) -> Draft {
    let answers = json!({"text": [answer], "answer_start": [start]});
    let row = json!({"question": "one", "context": context, "answers": answers});
    let data = "{train: train.jsonl, max_length: 12, doc_stride: 2}";
    let draft = draft.of_task("question-answering", "bert-question-answering", data);
    write(draft, "train.jsonl", row.to_string())
}

/// A job with one sentence of labelled words.
fn words(draft: Draft, row: &str) -> Draft {
    let data = "{train: train.jsonl}";
    let draft = draft.of_task("token-classification", "bert-masked-lm", data);
    write(draft, "train.jsonl", row)
}

/// A causal language model with 16 positions.
fn causal(draft: Draft, block_size: u32) -> Draft {
    let data = format!("{{train: train.jsonl, block_size: {block_size}}}");
    let draft = draft.of_task("causal-lm", "gpt2-causal-lm", &data);
    write(draft, "train.jsonl", "{\"text\": \"cat dog\"}\n".repeat(20))
}

/// A template whose lists hold 2^50 numbers each, in 51 pairs.
const ENDLESS: &str = "{% set ns = namespace(a=[1], b=[1]) %}{% for _ in range(50) %}\
    {% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}";

/// Supervised fine-tuning on one conversation, with a model folder that has no chat template.
fn chat(draft: Draft, fixture: &str) -> Draft {
    let message = |role, content| json!({"role": role, "content": content});
    let row = json!({"messages": [message("user", "cat"), message("assistant", "dog")]});
    write(draft.of_task("sft", fixture, "{train: train.jsonl}"), "train.jsonl", row.to_string())
}

/// The same job with a family that has no causal language model.
fn distilbert(draft: Draft) -> Draft {
    model::write_fixture(&draft.path("model"), "distilbert-sequence-classification");
    draft
}

fn parquet_label(draft: Draft) -> Draft {
    let rows = [("cat".to_owned(), "animal"), ("rock".to_owned(), "mineral")];
    write(draft, "validation.parquet", data::parquet(&rows))
}

fn configure(draft: Draft, key: &str, value: Value) -> Draft {
    change(draft, "model/config.json", |text| {
        let mut config: Value = serde_json::from_slice(&text).unwrap();
        config[key] = value;
        config.to_string().into_bytes()
    })
}

fn weights(draft: Draft, change: impl FnOnce(&mut model::Weights)) -> Draft {
    let mut weights = model::Weights::read(draft.path("model/model.safetensors"));
    change(&mut weights);
    weights.write();
    draft
}

fn tokenizer_of_51(draft: Draft) -> Draft {
    model::write_tokenizer(&draft.path("model"), &["rock"]);
    draft
}

/// Replaces the plugin by another file.
fn plugin(draft: Draft, content: &[u8]) -> Draft {
    let draft = remove(draft, PLUGIN); // the link, not what it leads to
    write(draft, PLUGIN, content)
}

/// The C library of this process.
fn c_library() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    paths.map(str::to_owned).find(|path| path.contains("/libc")).unwrap()
}
