//! One training by SageMaker's estimator, by a job file and by `traind convert`, to the same weights:
//! tweets in a CSV file with quotes and line breaks, reviews of a bucket with columns renamed and dropped,
//! and questions about contexts that are longer than a window. The models have the configurations of
//! bert-base-cased and distilbert-base-multilingual-cased, shrunk by `model.config_overrides`.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};
use traind_tests::bucket::Bucket;
use traind_tests::{CommandOutput, Draft, Host, data, model};

use super::python_client::{in_tests, python};
use crate::tasks::rows;

/// A training, as each of the three says it.
struct Training {
    name: &'static str,
    task: &'static str,
    /// The example script of transformers for the task.
    script: &'static str,
    /// The model's config.json.
    config: Value,
    overrides: Value,
    /// Files by split, as paths or URLs.
    files: [&'static str; 2],
    /// Arguments of the scripts, which the job file has in `data`, by its names for them.
    data: Vec<(&'static str, &'static str, Value)>,
    /// Fields of the job file that no script has.
    fields: Vec<(&'static str, Value)>,
    train: Vec<(&'static str, Value)>,
}

/// The values of bert-base-cased's config.json.
fn bert_base_cased() -> Value {
    json!({
        "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02,
        "intermediate_size": 3072, "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
        "model_type": "bert", "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0,
        "position_embedding_type": "absolute", "type_vocab_size": 2, "vocab_size": 28996,
    })
}

/// The values of distilbert-base-multilingual-cased's config.json.
fn distilbert_multilingual() -> Value {
    json!({
        "activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1,
        "dim": 768, "dropout": 0.1, "hidden_dim": 3072, "initializer_range": 0.02,
        "max_position_embeddings": 512, "model_type": "distilbert", "n_heads": 12, "n_layers": 6,
        "pad_token_id": 0, "qa_dropout": 0.1, "seq_classif_dropout": 0.2,
        "sinusoidal_pos_embds": false, "tie_weights_": true, "vocab_size": 119_547,
    })
}

fn small_bert() -> Value {
    json!({"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2})
}

fn small_distilbert() -> Value {
    json!({"dim": 16, "hidden_dim": 32, "n_heads": 2, "n_layers": 2})
}

/// Tweets with quotes, commas, backslashes and line breaks.
fn tweets(seed: u64, count: usize) -> String {
    let rows = data::rows(seed, count, 6);
    let lines = rows.iter().zip(0_u32..).map(|((text, label), row)| match row % 3 {
        0 => format!("\"\"\"{text}\"\", he said\\n\",{label}\n"),
        1 => format!("\"{text},\n@user &amp; \"\"#{label}\"\"\",{label}\n"),
        _ => format!("{text} \\o/,{label}\n"),
    });
    "text,label\n".to_owned() + &lines.collect::<String>()
}

/// Reviews with the columns of shops, of which most have no use.
fn reviews(seed: u64, count: usize) -> Vec<u8> {
    let rows = data::rows(seed, count, 6).into_iter();
    let lines = rows.zip(0..).map(|((text, label), row)| {
        json!({"review_id": row, "language": "en", "review_body": text, "stars": label, "text": "unused"})
    });
    rows::jsonl(lines).into_bytes()
}

fn trainings() -> [Training; 3] {
    let common = |epochs: u32| {
        vec![
            ("num_train_epochs", json!(epochs)),
            ("per_device_train_batch_size", json!(8)),
            ("learning_rate", json!(1.45e-3)),
            ("warmup_steps", json!(3)),
            ("weight_decay", json!(0.01)),
        ]
    };
    // One length takes one program of each kind.
    let padded = || ("pad_to_max_length", "pad_to_max_length", json!(true));
    let label_map = || ("data.label_map", json!(data::CLASSES));
    let best = [
        ("eval_strategy", json!("epoch")),
        ("save_strategy", json!("epoch")),
        ("load_best_model_at_end", json!(true)),
        ("metric_for_best_model", json!("f1")),
    ];
    [
        Training {
            name: "tweets",
            task: "sequence-classification",
            script: "run_classification.py",
            config: bert_base_cased(),
            overrides: small_bert(),
            files: ["train.csv", "validation.csv"],
            data: vec![("max_seq_length", "max_length", json!(24)), padded()],
            fields: vec![label_map()],
            train: common(6),
        },
        Training {
            name: "reviews",
            task: "sequence-classification",
            script: "run_classification.py",
            config: distilbert_multilingual(),
            overrides: small_distilbert(),
            files: ["s3://data/train.jsonl", "s3://data/validation.jsonl"],
            data: vec![("max_seq_length", "max_length", json!(24)), padded()],
            fields: vec![
                label_map(),
                ("data.columns.drop", json!(["review_id", "language"])),
                (
                    "data.columns.rename",
                    json!({"text": "other", "review_body": "text", "stars": "label"}),
                ),
            ],
            train: common(3).into_iter().chain(best).collect(),
        },
        Training {
            name: "squad",
            task: "question-answering",
            script: "run_qa.py",
            config: bert_base_cased(),
            overrides: small_bert(),
            files: ["train.json", "validation.json"],
            data: vec![
                ("max_seq_length", "max_length", json!(10)),
                ("doc_stride", "doc_stride", json!(2)),
                padded(),
            ],
            fields: vec![("data.id", json!("id"))],
            train: common(2),
        },
    ]
}

impl Training {
    /// Returns the fields for which no script and no estimator has a name of its own.
    fn other_fields(&self) -> Vec<(&'static str, Value)> {
        let start = [
            ("model.from_config", json!(true)),
            ("model.config_overrides", self.overrides.clone()),
        ];
        start.into_iter().chain(self.fields.iter().cloned()).collect()
    }

    fn job_file(&self) -> Value {
        let mut job = json!({
            "name": self.name,
            "model": {"name_or_path": "./model", "task": self.task},
            "data": {"train": self.files[0], "validation": self.files[1]},
            "train": Map::from_iter(self.train.iter().map(|(key, value)| ((*key).to_owned(), value.clone()))),
            "output_dir": "by-job-file",
        });
        for (_, key, value) in &self.data {
            job["data"][key] = value.clone();
        }
        for (path, value) in self.other_fields() {
            let target = path.split('.').fold(&mut job, |target, key| &mut target[key]);
            *target = value;
        }
        job
    }

    /// The arguments of `traind convert`.
    fn command(&self) -> Vec<String> {
        let mut words: Vec<String> = vec!["convert".to_owned()];
        for (path, value) in self.other_fields() {
            words.extend(["--set".to_owned(), format!("{path}={value}")]);
        }
        words
            .extend(["--output", "converted.yaml", "--", "python", self.script].map(str::to_owned));
        let [train, validation] = self.files;
        let files = [
            ("model_name_or_path", json!("./model")),
            ("train_file", json!(train)),
            ("validation_file", json!(validation)),
            ("output_dir", json!("by-convert")),
        ];
        let data = self.data.iter().map(|(name, _, value)| (*name, value.clone()));
        for (name, value) in files.into_iter().chain(data).chain(self.train.iter().cloned()) {
            words.push(format!("--{name}"));
            words.push(value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        words.extend(["--do_train", "--do_eval"].map(str::to_owned));
        words
    }

    /// The estimator, and the channels of its `fit`.
    fn estimator(&self) -> Value {
        let mut hyperparameters = Map::new();
        for (name, value) in &self.train {
            // The names that scripts of SageMaker's notebooks have.
            let name = match *name {
                "num_train_epochs" => "epochs",
                "per_device_train_batch_size" => "train_batch_size",
                name => name,
            };
            hyperparameters.insert(name.to_owned(), value.clone());
        }
        for (name, _, value) in &self.data {
            hyperparameters.insert((*name).to_owned(), value.clone());
        }
        for (path, value) in self.other_fields() {
            hyperparameters.insert(path.to_owned(), value);
        }
        let [train, validation] = self.files;
        json!({
            "name": format!("{}-by-estimator", self.name),
            "inputs": {"train": train, "test": validation},
            "estimator": {
                "model": "./model", "task": self.task, "cores": 1, "platform": "cpu",
                "hyperparameters": hyperparameters,
            },
        })
    }

    /// Writes the model and the files.
    fn draft(&self, host: &Host) -> Draft {
        let yaml = serde_json::to_string_pretty(&self.job_file()).unwrap();
        let draft = Draft::of_job_file(host, self.name, &yaml);
        model::write_fixture(&draft.path("model"), "bert-sequence-classification");
        fs::write(draft.path("model/config.json"), self.config.to_string()).unwrap();
        match self.name {
            "tweets" => {
                draft.write("train.csv", tweets(1, 60)).write("validation.csv", tweets(2, 31))
            }
            "squad" => draft
                .write("train.json", rows::squad(1, 40, false))
                .write("validation.json", rows::squad(2, 21, false)),
            _ => draft,
        }
    }
}

fn weights(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("model.safetensors")).unwrap()
}

fn run(command: &mut Command) -> String {
    let output = CommandOutput::of(command.output().unwrap());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    output.stdout.trim().to_owned()
}

/// Trains in all three ways. Prints the training's loss and metrics, as `scripts/compare/three_ways` shows them.
async fn check(host: &Host, python: &OsStr, package: &Path, training: &Training) {
    let draft = training.draft(host);
    let history = host.complete(&draft).await;
    let by_job_file = draft.path("by-job-file");

    let words = training.command();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = host.cli(draft.folder(), &words);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let said = host.cli(draft.folder(), &["submit", "converted.yaml", "--watch"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);

    let mut estimator = Command::new(python);
    estimator.arg(in_tests("end_to_end/clients/three_ways.py")).current_dir(draft.folder());
    estimator.arg(training.estimator().to_string());
    estimator.env("PYTHONPATH", package).env("TRAIND_SOCKET", host.socket());
    let by_estimator = run(&mut estimator);

    let trained = weights(&by_job_file);
    assert!(weights(&draft.path("by-convert")) == trained, "{}: traind convert", training.name);
    assert!(weights(Path::new(&by_estimator)) == trained, "{}: the estimator", training.name);
    let metrics = &history.finished().metrics;
    let bytes = trained.len();
    println!(
        "{:<8} {:>5} steps  train_loss {:.6}  eval_loss {:.6}  f1 {:.6}  {bytes} bytes, equal in three ways",
        training.name,
        history.finished().steps,
        metrics["train_loss"],
        metrics.get("eval_loss").copied().unwrap_or(f64::NAN),
        metrics["eval_f1"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_estimator_a_job_file_and_convert_train_the_same_weights() {
    let Some(python) = python() else { return };
    let objects = [("train.jsonl", reviews(3, 60)), ("validation.jsonl", reviews(4, 31))];
    let bucket = Bucket::start(&objects);
    let host = Host::started_with_environment(1, bucket.environment()).await;
    let package = host.path("package");
    run(Command::new(&python).arg(in_tests("../proto/python/generate.py")).arg(&package));
    for training in &trainings() {
        check(&host, &python, &package, training).await;
    }
}
