//! Job files as a whole: complete, incomplete, and unreadable ones.

use std::path::{Path, PathBuf};
use std::thread;

use traind_job_file::{
    EvalStrategy, JobFile, ModelSource, Parsed, Platform, StepsOrRatio, TrainSamplingStrategy,
};

use crate::{check, job, lines};

const DESIGN_EXAMPLE: &str = "
name: tweet-sentiment
model:
  name_or_path: ./bert-base-cased
  task: sequence-classification
  num_labels: 3
data:
  train: data/train.csv
  validation: data/dev.parquet
  text: text
  label: stars
  label_map: {1: negative, 2: negative, 3: neutral, 4: positive, 5: positive}
  max_length: 128
train:
  num_train_epochs: 6
  per_device_train_batch_size: 8
  learning_rate: 1.45e-4
  lr_scheduler_type: linear
  eval_strategy: steps
resources:
  platform: cpu
  cores: 2
parallel: {data: 2, tensor: 1, pipeline: 1, microbatches: 4, placement: cluster, shard_optimizer_state: true}
output_dir: out/tweet-sentiment
";

#[test]
fn a_whole_job_file() {
    let Parsed { job, warnings } = JobFile::parse(DESIGN_EXAMPLE, Path::new("/base")).unwrap();
    assert!(warnings.is_empty());
    assert_eq!(job.model.name_or_path, ModelSource::Folder("/base/bert-base-cased".into()));
    assert_eq!(job.data.train.as_ref().unwrap().patterns, [PathBuf::from("/base/data/train.csv")]);
    let label_map = job.data.label_map.as_ref().unwrap();
    assert_eq!(label_map.classes(), ["negative", "neutral", "positive"]);
    assert!(label_map.iter().any(|entry| entry == ("4", "positive")));
    assert_eq!(job.train.num_train_epochs, 6.0);
    assert_eq!(job.train.learning_rate, 1.45e-4);
    assert_eq!(job.train.eval_strategy, EvalStrategy::Steps);
    assert_eq!(job.train.eval_steps, Some(StepsOrRatio::steps(500)));
    assert_eq!(job.resources.platform, Platform::Cpu);
    assert!(job.parallel.shard_optimizer_state);
    assert_eq!(job.output_dir, Path::new("/base/out/tweet-sentiment"));
    assert_eq!(job.total_train_batch_size(), 16);
}

#[test]
fn what_is_left_out_has_the_trainers_defaults() {
    let train = job("").train;
    assert_eq!(train.num_train_epochs, 3.0);
    assert_eq!(train.max_steps, -1);
    assert_eq!(train.per_device_train_batch_size, 8);
    assert_eq!(train.learning_rate, 5e-5);
    assert_eq!((train.adam_beta1, train.adam_beta2, train.adam_epsilon), (0.9, 0.999, 1e-8));
    assert_eq!((train.weight_decay, train.max_grad_norm), (0.0, 1.0));
    assert_eq!((train.seed, train.data_seed), (42, None));
    assert_eq!(train.train_sampling_strategy, TrainSamplingStrategy::Random);
    assert_eq!(train.logging_steps.resolve(10_000), 500);
    assert_eq!(train.warmup_steps.resolve(10_000), 0);
}

#[test]
fn yaml_that_cannot_be_parsed() {
    let said = |yaml: &str| lines(&JobFile::parse(yaml, Path::new("/base")).unwrap_err());
    assert_eq!(said(""), "job file: is empty");
    assert_eq!(
        said("- a\n- b"),
        "line 1: job file: must be a mapping of keys to values, not a list"
    );
    assert_eq!(said("name: demo\nname: again"), "line 2: job file: gives the key `name` twice");
    assert_eq!(
        said("train:\n  learning_rate: .inf"),
        "line 2: job file: has a number that is not finite"
    );
    assert_eq!(
        said("name: a\n---\nname: b"),
        "line 3: job file: has more than one YAML document; remove the `---` between them, or all \
         but one"
    );
    let broken = said("name: demo\nmodel: {a: b");
    assert!(broken.starts_with("line 2: job file: is not valid YAML: "), "{broken}");
    let glob = said("name: demo\ndata:\n  train: *.csv");
    assert!(glob.ends_with("; put quotes around a value that begins with `*`"), "{glob}");
}

/// The daemon parses on threads with 2 MiB of stack.
#[test]
fn deep_and_swelling_documents_are_refused() {
    let swelling =
        ('b'..='z').zip('a'..).map(|(name, inner)| format!("{name}: &{name} [*{inner}, *{inner}]"));
    let deep = [
        "[".repeat(100_000),
        "{a: ".repeat(100_000),
        "- ".repeat(100_000),
        (0..1000).map(|depth| " ".repeat(depth) + "a:\n").collect(),
        "[".repeat(1500) + &"]".repeat(1500),
        "a: &a [x, x]\n".to_owned() + &swelling.collect::<Vec<_>>().join("\n"),
    ];
    let parsing = thread::Builder::new().stack_size(2 << 20).spawn(move || {
        for yaml in deep {
            let violations = JobFile::parse(&yaml, Path::new("/base")).unwrap_err();
            let said = lines(&violations);
            let refused = ["too large", "limit", "budget"].iter().any(|word| said.contains(word));
            assert!(refused, "{said}");
        }
    });
    parsing.unwrap().join().unwrap();
}

#[test]
fn all_that_is_missing_is_named() {
    let violations = JobFile::parse("train: {seed: 1}", Path::new("/base")).unwrap_err();
    let missing: Vec<_> = violations.iter().map(|violation| violation.field.as_str()).collect();
    assert_eq!(missing, ["name", "model.name_or_path", "model.task", "output_dir"]);
    assert!(violations.iter().all(|violation| violation.description == "is required"));
}

#[test]
fn what_cannot_be_done_yet_is_refused() {
    let refused = "is not fetched; copy it to this host and name the file, or name objects of a bucket \
                   (`s3://BUCKET/KEY`) or a data set of the hub (`ORG/NAME`)";
    for url in ["gs://bucket/a.csv", "https://host/a.csv"] {
        let expect = format!("line 1: data.train: {url} {refused}");
        check(&format!("data: {{train: \"{url}\"}}"), &expect);
    }
}

#[test]
fn a_file_url_names_a_file_of_this_host() {
    let yaml = "{name: a, model: {name_or_path: ./a, task: causal-lm}, output_dir: out, \
                data: {train: \"file:///data/a b.csv\"}}";
    let job = JobFile::parse(yaml, Path::new("/base")).unwrap().job;
    assert_eq!(job.data.train.unwrap().patterns, [Path::new("/data/a b.csv")]);
}

#[test]
fn one_fault_does_not_hide_another() {
    check(
        "train:
           learning_rate: -1
           qqqqqq: 1\nparallel:
           data: 3
           placement: near",
        "line 2: train.learning_rate: must be at least 0, not -1
         line 3: train.qqqqqq: is not a known key
         line 4: parallel: data x tensor x pipeline is 3, but resources.cores is 1; data 1 x tensor 1 x pipeline 1 works
         line 6: parallel.placement: must be one of cluster, spread, DPT, DTP, PDT, PTD, TDP, TPD, not `near`",
    );
    check(
        "train: {learning_rate: -1}\nparallel: {data: 3}\ndata: {}",
        "line 1: train.learning_rate: must be at least 0, not -1
         line 2: parallel: data x tensor x pipeline is 3, but resources.cores is 1; data 1 x tensor 1 x pipeline 1 works
         line 3: data.train: is required unless train.do_train is false",
    );
}

/// Another tool's file was once answered with a list of unknown keys.
#[test]
fn a_file_of_another_tool_is_said_to_be_its() {
    for (yaml, sentences) in [
        ("base_model: x/y\ndatasets: []", ["axolotl's file", "traind convert FILE"]),
        ("stage: sft\nmodel_name_or_path: x/y", ["LLaMA-Factory's file", "traind convert FILE"]),
        ("hyperparameters: {epochs: 1}", ["SageMaker's", "traind convert FILE"]),
        ("compute_environment: LOCAL_MACHINE", ["accelerate's", "resources.cores"]),
        ("model: {_component_: a.b}\nepochs: 1", ["torchtune's", "traind init"]),
        ("model_name_or_path: x/y\ndataset_name: a/b", ["TRL's", "traind convert FILE"]),
        (
            "max_length: 8\npadding_free: false\ntruncation_mode: keep_start",
            ["TRL's", "convert FILE"],
        ),
        ("output_dir: a\nlog_level_replica: warning", ["has TrainingArguments", "by --set"]),
        ("model_type: bert\nhidden_size: 8", ["a model's config.json", "traind init"]),
        (
            "text,label\na b,1",
            ["must be a mapping of keys to values", "not the text `text,label a b,1`"],
        ),
        ("python run_glue.py --do_train", ["not the text `python run_glue", "traind convert FILE"]),
    ] {
        let violations = JobFile::parse(yaml, Path::new("/base")).unwrap_err();
        let found = lines(&violations);
        assert_eq!(violations.len(), 1, "{found}");
        assert!(sentences.iter().all(|sentence| found.contains(sentence)), "{found}");
    }
    // A job with such a key is a job: its key is unknown.
    let violations =
        JobFile::parse("model: {task: sft}\nstage: sft", Path::new("/base")).unwrap_err();
    assert!(lines(&violations).contains("stage: is not a known key"), "{}", lines(&violations));
}

/// Tokens are texts of tasks that read texts.
#[test]
fn new_tokens_are_texts_of_tasks_that_read_texts() {
    let job = |task: &str, tokens: &str| {
        let file = format!(
            "name: a\nmodel: {{name_or_path: ./m, task: {task}, {tokens}}}\ndata: {{train: a.jsonl}}\n\
             output_dir: out"
        );
        JobFile::parse(&file, Path::new("/base")).map(drop).map_err(|violations| {
            violations
                .iter()
                .map(|it| format!("{}: {}", it.field, it.description))
                .collect::<Vec<_>>()
        })
    };
    let special = "add_special_tokens: {pad_token: <pad>, additional_special_tokens: [<a>]}";
    assert_eq!(job("causal-lm", special), Ok(()));
    let images = job("image-classification", special).unwrap_err().concat();
    assert!(images.contains("pad_token: has no meaning for images"), "{images}");
    let empty = job("causal-lm", "add_tokens: [\"\"]").unwrap_err();
    assert_eq!(empty, ["model.add_tokens[0]: must not be empty"]);
    let images = job("image-classification", "pad_vocab_to_multiple_of: 8").unwrap_err().concat();
    assert!(images.contains("model.pad_vocab_to_multiple_of: has no meaning"), "{images}");
}
