//! Accepted job files, and the violations of others.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::json;
use traind_job_file::{
    CastType, DataSetUrl, EvalStrategy, JobFile, ModelSource, Parsed, Platform, ResumeFrom,
    StepsOrRatio, TrainSamplingStrategy, Violation, fields,
};

/// A job file with these top-level keys, completed from a minimal one. The keys
/// come first, so that the first line of `keys` is line 1.
fn complete(keys: &str) -> String {
    let minimal = [
        "name: demo",
        "model: {name_or_path: ./bert, task: sequence-classification, num_labels: 3}",
        "data: {train: train.csv, validation: dev.csv}",
        "output_dir: out",
    ];
    let given: BTreeSet<_> = keys.lines().filter_map(|line| line.split(':').next()).collect();
    let missing = minimal.iter().filter(|line| !given.contains(line.split(':').next().unwrap()));
    missing.fold(format!("{}\n", keys.trim_end()), |yaml, line| yaml + line + "\n")
}

fn parse(keys: &str) -> Result<Parsed, Vec<Violation>> {
    JobFile::parse(&complete(keys), Path::new("/base"))
}

fn job(keys: &str) -> JobFile {
    parse(keys).unwrap_or_else(|violations| panic!("{}", lines(&violations))).job
}

fn lines<T: ToString>(problems: &[T]) -> String {
    problems.iter().map(T::to_string).collect::<Vec<_>>().join("\n")
}

/// Parses and compares all that is said: violations, or else warnings.
fn check(keys: &str, expect: &str) {
    let said = match parse(keys) {
        Ok(parsed) => lines(&parsed.warnings),
        Err(violations) => lines(&violations),
    };
    let expect: Vec<_> = expect.trim().lines().map(str::trim).collect();
    assert_eq!(said, expect.join("\n"), "for\n{keys}");
}

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
    assert_eq!(label_map.class_of("4"), Some("positive"));
    assert_eq!(label_map.class_of("6"), None);
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
fn numbers_in_all_their_forms() {
    let rate = |text: &str| job(&format!("train: {{learning_rate: {text}}}")).train.learning_rate;
    assert_eq!(rate("1.45e-4"), 1.45e-4);
    assert_eq!(rate("5e-5"), 5e-5);
    assert_eq!(rate("1E-3"), 1e-3);
    assert_eq!(rate("0.001"), 0.001);
    assert_eq!(rate("1"), 1.0);
    assert_eq!(rate("0"), 0.0);
}

#[test]
fn keys_that_are_not_known() {
    check(
        "train:\n  learning_rat: 1e-4\n  seed: 1",
        "line 2: train.learning_rat: is not a known key; did you mean `train.learning_rate`?",
    );
    check(
        "learning_rate: 1e-4",
        "line 1: learning_rate: is not a known key; did you mean `train.learning_rate`?",
    );
    check("tran: {}", "line 1: tran: is not a known key; did you mean `train`?");
    check(
        "data: {train: a.csv, txt: body}",
        "line 1: data.txt: is not a known key; did you mean `data.text`?",
    );
    check(
        "train: {epochs: 3, output_dir: out}",
        "line 1: train.epochs: is not a known key; did you mean `train.num_train_epochs`?
         line 1: train.output_dir: is not a known key; `output_dir` is a key of the job, outside of all sections",
    );
    check("resources: {zzzzzz: 1}", "line 1: resources.zzzzzz: is not a known key");
}

#[test]
fn values_of_the_wrong_type() {
    check(
        "train:
           learning_rate: fast
           seed: 1.5
           max_steps: \"10\"
           dataloader_drop_last: yes
           logging_steps: null
           adam_beta1: [0.9]
           lr_scheduler_type: 3",
        "line 2: train.learning_rate: must be a number, not the text `fast`
         line 3: train.seed: must be an integer, not 1.5
         line 4: train.max_steps: must be an integer, not the text `10`
         line 5: train.dataloader_drop_last: must be true or false, not the text `yes`
         line 6: train.logging_steps: must be a number, not null
         line 7: train.adam_beta1: must be a number, not a list
         line 8: train.lr_scheduler_type: must be one of linear, cosine, cosine_with_min_lr, \
            cosine_with_restarts, polynomial, constant, constant_with_warmup, inverse_sqrt, \
            warmup_stable_decay, not 3",
    );
    check("name: 2024", "line 1: name: must be text, not 2024; put it in quotes");
    check("name: ''", "line 1: name: must not be empty");
    check("train: 3", "line 1: train: must be a mapping of keys to values, not 3");
    check("data: {train: 7}", "line 1: data.train: must be a path or a list of paths, not 7");
    check(
        "data:\n  train:\n    - a.csv\n    - 7\n    - ''",
        "line 4: data.train[1]: must be text, not 7; put it in quotes
         line 5: data.train[2]: must not be empty",
    );
}

#[test]
fn values_out_of_range() {
    let table = [
        ("num_train_epochs: 0", "must be above 0, not 0"),
        ("max_steps: -2", "must be at least -1, not -2"),
        ("max_steps: 0", "must be -1 or at least 1, not 0"),
        ("per_device_train_batch_size: -8", "must be from 0 to 4294967295, not -8"),
        ("per_device_train_batch_size: 0", "must be at least 1 and at most 1048576, not 0"),
        ("per_device_eval_batch_size: 0", "must be at least 1 and at most 1048576, not 0"),
        ("learning_rate: -1e-4", "must be at least 0, not -0.0001"),
        ("weight_decay: -0.1", "must be at least 0, not -0.1"),
        ("adam_beta1: 1.0", "must be at least 0 and below 1, not 1"),
        ("adam_beta2: 1.5", "must be at least 0 and below 1, not 1.5"),
        ("adam_epsilon: 0", "must be above 0, not 0"),
        ("max_grad_norm: -1", "must be at least 0, not -1"),
        ("warmup_steps: -1", "must be at least 0, not -1"),
        ("warmup_steps: 1.5", "must be whole, or a share of all steps below 1, not 1.5"),
        ("logging_steps: 0", "must be above 0, not 0"),
        ("eval_steps: 0", "must be above 0, not 0"),
        ("seed: 4294967296", "must be at least 0 and at most 4294967295, not 4294967296"),
        ("label_smoothing_factor: 1", "must be at least 0 and below 1, not 1"),
        ("eval_strategy: never", "must be one of no, steps, epoch, not `never`"),
    ];
    for (setting, description) in table {
        let field = setting.split(':').next().unwrap();
        check(&format!("train: {{{setting}}}"), &format!("line 1: train.{field}: {description}"));
    }
    check(
        "resources: {cores: 0}",
        "line 1: resources.cores: must be at least 1 and at most 65536, not 0",
    );
    check(
        "data: {train: a.csv, max_length: 0}",
        "line 1: data.max_length: must be at least 1 and at most 1048576, not 0",
    );
}

#[test]
fn yaml_that_cannot_be_parsed() {
    let said = |yaml: &str| lines(&JobFile::parse(yaml, Path::new("/base")).unwrap_err());
    assert_eq!(said(""), "job file: is empty");
    assert_eq!(
        said("- a\n- b"),
        "line 1: job file: must be a mapping of keys to values, not a list"
    );
    assert_eq!(said("name: demo\nname: again"), "line 2: job file: key `name` is given twice");
    assert_eq!(said("train:\n  learning_rate: .inf"), "line 2: job file: numbers must be finite");
    let broken = said("name: demo\nmodel: {a: b");
    assert!(broken.starts_with("line 2: job file: not valid YAML: "), "{broken}");
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
fn fields_that_do_not_fit_each_other() {
    check(
        "data: {train: a.csv}\ntrain:\n  eval_strategy: epoch",
        "line 3: train.eval_strategy: is `epoch`, but there is no data.validation",
    );
    check("data: {train: a.csv}\ntrain:\n  eval_strategy: no", "");
    check(
        "data: {train: a.csv, text: body, label: body}",
        "line 1: data.label: column `body` is `data.text` already",
    );
    check(
        "data: {train: a.csv, text: body, text_pair: body}",
        "line 1: data.text_pair: column `body` is `data.text` already",
    );
    check(
        "data: {train: a.csv, label_map: {a: x, b: y}}",
        "line 3: model.num_labels: is 3, but data.label_map has 2 classes",
    );
    check(
        "resources: {cores: 4}\nparallel: {data: 2}",
        "line 2: parallel: data x tensor x pipeline is 2, but resources.cores is 4",
    );
    check(
        "model: {name_or_path: ./bert, task: sequence-classification, num_labels: 2, revision: main}",
        "line 1: model.revision: applies to a hub id, not to a folder",
    );
    check(
        "train: {lr_scheduler_type: constant, warmup_steps: 10}",
        "line 1: train.warmup_steps: has no effect with the scheduler `constant`; \
         `constant_with_warmup` warms up",
    );
    let long = "x".repeat(129);
    check(&format!("name: {long}"), "line 1: name: must have at most 128 characters");
    check("name: \"a\\nb\"", "line 1: name: must be one line without control characters");
}

#[test]
fn splits_that_do_not_fit_each_other() {
    let validation = "data: {train: a.csv, validation: b.csv, validation_split: 0.1}";
    check(validation, "line 1: data.validation_split: cannot be combined with data.validation");
    check("data: {train: a.csv, validation_split: 0.1}\ntrain: {eval_strategy: epoch}", "");
    check(
        "data: {train: a.csv, validation_split: 1.0}",
        "line 1: data.validation_split: must be above 0 and below 1, not 1",
    );
    check(
        "data: {train: a.csv, validation: b.csv}\ntrain:\n  do_eval: false\n  eval_strategy: epoch",
        "line 4: train.eval_strategy: is `epoch`, but train.do_eval is false",
    );
    check(
        "data: {train: a.csv}\ntrain: {do_eval: true}",
        "line 2: train.do_eval: is true, but there is no data.validation",
    );
}

#[test]
fn columns_are_renamed_dropped_and_cast() {
    let job =
        job("data:\n  train: a.csv\n  columns:\n    rename: {sentence: text, id: label}\n    \
         drop: [extra]\n    cast: {label: int64}");
    let columns = &job.data.columns;
    let renamed: Vec<_> = columns.rename.iter().map(|(from, to)| (from, to.as_str())).collect();
    assert_eq!(renamed, [("sentence", "text"), ("id", "label")]);
    assert_eq!(columns.drop, ["extra"]);
    assert_eq!(columns.cast.iter().collect::<Vec<_>>(), [("label", &CastType::Int64)]);
    check(
        "data: {train: a.csv, columns: {cast: {label: int32}}}",
        "line 1: data.columns.cast.label: must be one of string, int64, float64, bool, not `int32`",
    );
    check(
        "data: {train: a.csv, columns: {drop: extra}}",
        "line 1: data.columns.drop: must be a list, not the text `extra`",
    );
}

#[test]
fn fields_that_do_not_fit_the_task() {
    let of_task = |task: &str, model: &str, more: &str| {
        format!("model: {{name_or_path: ./bert, task: {task}{model}}}\n{more}")
    };
    for task in ["token-classification", "question-answering", "masked-lm", "causal-lm"] {
        check(&of_task(task, "", ""), "");
    }
    check(
        &of_task("question-answering", ", num_labels: 2", ""),
        "line 1: model.num_labels: applies to classification, not to question-answering",
    );
    check(
        &of_task("masked-lm", "", "data: {train: a.csv, label_map: [a, b]}"),
        "line 2: data.label_map: applies to classification, not to masked-lm",
    );
    check(
        &of_task("token-classification", ", problem_type: regression", ""),
        "line 1: model.problem_type: applies to sequence-classification, not to token-classification",
    );
    check(
        &of_task("token-classification", "", "data: {train: a.csv, tokens: x, labels: x}"),
        "line 2: data.labels: column `x` is `data.tokens` already",
    );
    check(&of_task("sequence-classification", ", problem_type: regression, num_labels: 3", ""), "");
    check(&of_task("sequence-classification", ", problem_type: regression", ""), "");
    check(
        &of_task(
            "sequence-classification",
            ", num_labels: 1",
            "train: {label_smoothing_factor: 0.1}",
        ),
        "line 2: train.label_smoothing_factor: applies to one class a row, \
         not to numbers or several classes",
    );
    check(
        &of_task(
            "sequence-classification",
            ", num_labels: 2",
            "data: {train: a.csv, block_size: 8}",
        ),
        "line 2: data.block_size: applies to masked-lm and causal-lm, not to sequence-classification",
    );
    check(
        &of_task("causal-lm", "", "data: {train: a.csv, line_by_line: true}"),
        "line 2: data.line_by_line: applies to masked-lm, not to causal-lm",
    );
}

#[test]
fn old_names_are_read_with_a_warning() {
    check(
        "train:
           evaluation_strategy: epoch
           per_gpu_train_batch_size: 4
           warmup_ratio: 0.1
           group_by_length: true
           optim: adamw_torch_fused",
        "line 2: train.evaluation_strategy: is read as `eval_strategy`
         line 3: train.per_gpu_train_batch_size: is read as `per_device_train_batch_size`
         line 4: train.warmup_ratio: is read as `warmup_steps`
         line 5: train.group_by_length: is read as `train_sampling_strategy`
         line 6: train.optim: `adamw_torch_fused` is read as `adamw_torch`",
    );
    let train = job("train: {warmup_ratio: 0.1, group_by_length: true}").train;
    assert_eq!(train.warmup_steps.resolve(95), 10);
    assert_eq!(train.train_sampling_strategy, TrainSamplingStrategy::GroupByLength);
    check(
        "train: {evaluation_strategy: epoch, eval_strategy: no}",
        "line 1: train.evaluation_strategy: is another name of `eval_strategy`; give one of them",
    );
    check(
        "train: {warmup_ratio: 2}",
        "line 1: train.warmup_ratio: must be at least 0 and below 1, not 2",
    );
    check(
        "train:\n  per_gpu_eval_batch_size: 0",
        "line 2: train.per_device_eval_batch_size: must be at least 1 and at most 1048576, not 0",
    );
}

#[test]
fn what_cannot_be_done_yet_is_refused() {
    let refused = "is not supported yet with this value";
    let table = [("parallel", "placement: spread")];
    for (section, setting) in table {
        let field = setting.split(':').next().unwrap();
        check(
            &format!("{section}: {{{setting}}}"),
            &format!("line 1: {section}.{field}: {refused}"),
        );
    }
    for axis in ["tensor", "pipeline"] {
        check(
            &format!("resources: {{cores: 2}}\nparallel: {{{axis}: 2}}"),
            &format!("line 2: parallel.{axis}: {refused}"),
        );
    }
    check(
        "model: {name_or_path: ./t5, task: seq2seq-lm}",
        &format!("line 1: model.task: {refused}"),
    );
    check("data: {train: \"gs://bucket/a.csv\"}", &format!("line 1: data.train: {refused}"));
}

#[test]
fn a_model_is_a_folder_or_a_hub_id() {
    for id in ["models/bert/base", "org/../name", "a b", "org/", "org/name?x=y"] {
        check(
            &format!("model: {{name_or_path: \"{id}\", task: causal-lm}}"),
            &format!(
                "line 1: model.name_or_path: `{id}` is no hub id such as `org/name`; a folder \
                 begins with `/` or `./`"
            ),
        );
    }
    for id in ["bert-base-cased", "google/bert_uncased_L-2_H-128_A-2"] {
        let job = job(&format!("model: {{name_or_path: {id}, task: causal-lm, revision: pr/1}}"));
        assert!(job.reads_hub(), "{id}");
    }
    check(
        "model: {name_or_path: org/name, task: causal-lm, revision: ../main}",
        "line 1: model.revision: is no branch, tag or commit",
    );
}

#[test]
fn one_fault_does_not_hide_another() {
    check(
        "train:
           learning_rate: -1
           qqqqqq: 1\nparallel:
           data: 3
           placement: spread",
        "line 2: train.learning_rate: must be at least 0, not -1
         line 3: train.qqqqqq: is not a known key
         line 4: parallel: data x tensor x pipeline is 3, but resources.cores is 1
         line 6: parallel.placement: is not supported yet with this value",
    );
    check(
        "train: {learning_rate: -1}\nparallel: {data: 3}\ndata: {}",
        "line 1: train.learning_rate: must be at least 0, not -1
         line 2: parallel: data x tensor x pipeline is 3, but resources.cores is 1
         line 3: data.train: is required unless train.do_train is false",
    );
}

#[test]
fn paths_are_taken_from_the_base_folder() {
    let job = job("data: {train: [a.csv, /b/*.csv, ./c/../d.csv]}\noutput_dir: /abs/out");
    let expect = ["/base/a.csv", "/b/*.csv", "/base/c/../d.csv"].map(PathBuf::from);
    assert_eq!(job.data.train.as_ref().unwrap().patterns, expect);
    assert_eq!(job.output_dir, Path::new("/abs/out"));

    let special = JobFile::parse(&complete(""), Path::new("/ba[s]e")).unwrap().job;
    assert_eq!(special.data.train.unwrap().patterns, [PathBuf::from("/ba[[]s[]]e/train.csv")]);
    assert_eq!(special.output_dir, Path::new("/ba[s]e/out"));

    let relative = JobFile::parse(&complete(""), Path::new("base")).unwrap_err();
    assert_eq!(lines(&relative), "base_dir: must be absolute, not `base`");
    check(
        "output_dir: ~/out",
        "line 1: output_dir: `~` is not expanded in a job file; write the folder out",
    );
    check("data: {train: \"a[.csv\"}", "line 1: data.train: is not a glob: invalid range pattern");
}

#[test]
fn label_maps() {
    let classes = |map: &str| {
        let keys = format!(
            "model: {{name_or_path: ./bert, task: sequence-classification}}\n\
             data: {{train: a.csv, label_map: {map}}}"
        );
        let job = job(&keys);
        let map = job.data.label_map.unwrap();
        assert_eq!(job.model.num_labels, u32::try_from(map.classes().len()).ok());
        map.classes().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(classes("{good: yes, bad: no, poor: no}"), ["yes", "no"]);
    assert_eq!(classes("{a: 2, b: 0, c: 1}"), ["0", "1", "2"]);
    assert_eq!(classes("{a: 2, b: 3}"), ["2", "3"]);
    assert_eq!(classes("[admin, devel, true, 7]"), ["admin", "devel", "true", "7"]);
    check(
        "data: {train: a.csv, label_map: {}}",
        "line 1: data.label_map: must map at least one label",
    );
    check(
        "data:\n  train: a.csv\n  label_map: [a, a, b, c]",
        "line 3: data.label_map[1]: `a` is given twice",
    );
    check(
        "data:\n  train: a.csv\n  label_map: {1: [x]}",
        "line 3: data.label_map.1: must be text, not a list",
    );
}

#[test]
fn overrides_replace_values() {
    let parse = |pairs: &[(&str, &str)]| {
        let values: BTreeMap<_, _> =
            pairs.iter().map(|(path, yaml)| ((*path).to_owned(), (*yaml).to_owned())).collect();
        let yaml = complete("train: {seed: 1}");
        JobFile::parse_with_overrides(&yaml, &values, Path::new("/base"))
    };
    let job = parse(&[
        ("train.seed", "7"),
        ("train.learning_rate", "3e-5"),
        ("resources.cores", "2"),
        ("model.config_overrides.hidden_dropout_prob", "0.0"),
    ])
    .unwrap()
    .job;
    assert_eq!((job.train.seed, job.train.learning_rate), (7, 3e-5));
    assert_eq!(job.data_parallel_size(), 2);
    assert_eq!(job.model.config_overrides["hidden_dropout_prob"], 0.0);

    let violations = parse(&[("train.seed", "x"), ("name.first", "y"), ("train.", "1")]);
    assert_eq!(
        lines(&violations.unwrap_err()),
        "name.first: is not the path of a field\n\
         train.: is not the path of a field\n\
         train.seed: must be an integer, not the text `x`"
    );
}

#[test]
fn steps_may_be_a_share_of_all() {
    let warmup = |text: &str| job(&format!("train: {{warmup_steps: {text}}}")).train.warmup_steps;
    assert_eq!(warmup("0.1").resolve(101), 11);
    assert_eq!(warmup("1").resolve(101), 1);
    assert_eq!(warmup("30").resolve(101), 30);
}

#[test]
fn options_of_a_schedule_fit_it() {
    let said = |schedule: &str, kwargs: &str, expect: &str| {
        let train =
            format!("train: {{lr_scheduler_type: {schedule}, lr_scheduler_kwargs: {{{kwargs}}}}}");
        check(&train, expect);
    };
    said("cosine_with_restarts", "num_cycles: 4", "");
    said("polynomial", "lr_end: 0, power: 2", "");
    let path = "line 1: train.lr_scheduler_kwargs";
    for (schedule, kwargs, expect) in [
        (
            "polynomial",
            "num_cycles: 2",
            "num_cycles: is no option of `polynomial`, which has `lr_end` and `power`",
        ),
        ("linear", "power: 2", "power: is no option of `linear`, which has none"),
        ("polynomial", "lr_end: 5e-5", "lr_end: must be below train.learning_rate"),
        ("inverse_sqrt", "timescale: 0", "timescale: must be above 0, not 0"),
        ("cosine", "num_cycles: many", "num_cycles: must be a number, not the text `many`"),
    ] {
        said(schedule, kwargs, &format!("{path}.{expect}"));
    }
}

#[test]
fn sizes_of_files_have_units() {
    let model = |size: &str| {
        format!(
            "model: {{name_or_path: ./bert, task: sequence-classification, num_labels: 3, max_shard_size: {size}}}"
        )
    };
    let table = [
        ("5GB", 5_000_000_000, json!("5GB")),
        ("' 0.5 mb '", 500_000, json!("500KB")),
        ("1.5TB", 1_500_000_000_000, json!("1500GB")),
        ("1234", 1234, json!(1234)),
        ("1.0001KB", 1000, json!("1KB")),
    ];
    for (text, bytes, written) in table {
        let size = job(&model(text)).model.max_shard_size;
        assert_eq!((size.bytes(), serde_json::to_value(size).unwrap()), (bytes, written), "{text}");
    }
    let wanted = "must be a number of bytes, or text such as `5GB`, not";
    for (text, problem) in [
        ("5GiB", format!("{wanted} `5GiB`")),
        ("GB", format!("{wanted} `GB`")),
        ("'€B'", format!("{wanted} `€B`")),
        ("-1KB", format!("{wanted} `-1KB`")),
        ("1e30TB", format!("{wanted} `1e30TB`")),
        ("0.5", format!("{wanted} 0.5")),
        ("0.0001KB", "must be at least 1, not 0".to_owned()),
    ] {
        check(&model(text), &format!("line 1: model.max_shard_size: {problem}"));
    }
}

#[test]
fn every_field_is_documented() {
    let mut json = serde_json::to_value(job("")).unwrap();
    let columns = json["data"].as_object_mut().unwrap().remove("columns").unwrap();
    json["data.columns"] = columns;
    let documented: BTreeSet<_> = fields().into_iter().map(|field| field.path).collect();
    let mut serialized = BTreeSet::new();
    for (section, value) in json.as_object().unwrap() {
        match value.as_object() {
            Some(keys) => serialized.extend(keys.keys().map(|key| format!("{section}.{key}"))),
            None => drop(serialized.insert(section.clone())),
        }
    }
    assert_eq!(serialized, documented);
    for field in fields() {
        assert!(field.doc.ends_with('.'), "{}: {:?}", field.path, field.doc);
        assert!(!(field.required && field.default.is_some()), "{}", field.path);
    }
}

#[test]
fn a_field_is_documented_from_its_declaration() {
    let of = |path: &str| fields().into_iter().find(|field| field.path == path).unwrap();
    let beta = of("train.adam_beta1");
    assert_eq!(beta.type_name, "number");
    assert_eq!(beta.default.as_deref(), Some("0.9"));
    assert_eq!(beta.range.as_deref(), Some("at least 0 and below 1"));
    assert_eq!(beta.doc, "Decay rate of Adam's mean of gradients.");
    let strategy = of("train.eval_strategy");
    assert_eq!(strategy.type_name, "`no`, `steps`, `epoch`");
    assert_eq!(strategy.default.as_deref(), Some("no"));
    assert!(of("model.task").required);
    assert_eq!((of("data.validation").required, of("data.validation").default), (false, None));
}

#[test]
fn the_best_model_needs_evaluations_and_checkpoints_of_them() {
    let unfit = "needs a checkpoint of what is evaluated: eval_strategy and save_strategy must be \
                 the same, and save_steps a multiple of eval_steps";
    for (train, fits) in [
        ("eval_strategy: steps, eval_steps: 10, save_steps: 20", true),
        ("eval_strategy: steps, eval_steps: 0.1, save_steps: 0.3", true),
        ("eval_strategy: epoch, save_strategy: epoch", true),
        ("eval_strategy: steps, save_strategy: best", true),
        ("eval_strategy: steps, eval_steps: 10, save_steps: 15", false),
        ("eval_strategy: steps, eval_steps: 0.1, save_steps: 20", false),
        ("eval_strategy: epoch", false),
        ("save_strategy: epoch", false),
    ] {
        let field = "train.load_best_model_at_end";
        let expect = if fits { String::new() } else { format!("line 1: {field}: {unfit}") };
        check(&format!("train: {{load_best_model_at_end: true, {train}}}"), &expect);
    }
    check(
        "train: {save_strategy: best}",
        "line 1: train.save_strategy: is `best`, but eval_strategy is `no`",
    );
    check(
        "train: {early_stopping_patience: 2}",
        "line 1: train.early_stopping_patience: counts evaluations, but eval_strategy is `no`",
    );
    check(
        "train: {early_stopping_patience: 2, eval_strategy: epoch}",
        "line 1: train.early_stopping_patience: ends training early, and the model is then not \
         the best but the last; load_best_model_at_end takes the best",
    );
}

#[test]
fn a_checkpoint_to_resume_from_is_a_path_or_true() {
    let resume = |value: &str| {
        job(&format!("train: {{resume_from_checkpoint: {value}}}")).train.resume_from_checkpoint
    };
    assert_eq!(resume("true"), Some(ResumeFrom::Newest));
    assert_eq!(resume("false"), Some(ResumeFrom::Nowhere));
    assert_eq!(
        resume("out/checkpoint-5"),
        Some(ResumeFrom::Folder("/base/out/checkpoint-5".into()))
    );
    check(
        "train: {resume_from_checkpoint: 5}",
        "line 1: train.resume_from_checkpoint: must be a path, true or false, not 5",
    );
}

#[test]
fn fields_are_apart_by_one_character() {
    let job = |text: &str| {
        JobFile::parse(
            &complete(&format!("data: {{train: a.csv, delimiter: {text}}}")),
            Path::new("/"),
        )
    };
    assert_eq!(job("';'").unwrap().job.data.delimiter.as_deref(), Some(";"));
    assert_eq!(job(r#""\t""#).unwrap().job.data.delimiter.as_deref(), Some("\t"));
    for wrong in ["';;'", "é", r#""\n""#, "'\"'"] {
        check(
            &format!("data: {{train: a.csv, delimiter: {wrong}}}"),
            "line 1: data.delimiter: must be one ASCII character that is no quote and no line break",
        );
    }
}

#[test]
fn a_data_set_of_the_hub_is_an_id_or_an_address() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("org/here")).unwrap();
    let keys = "data: {train: org/rows, validation: org/here, test: [data/test.csv, org/a/b], \
        dataset_config_name: en, revision: refs/convert/parquet}";
    let job = JobFile::parse(&complete(keys), folder.path()).unwrap().job;
    let patterns = |files: Option<traind_job_file::DataFiles>| files.unwrap().patterns;
    assert!(job.reads_hub());
    assert_eq!(patterns(job.data.train), [Path::new("hf://datasets/org/rows")]);
    assert_eq!(patterns(job.data.validation), [folder.path().join("org/here")]);
    let files = ["data/test.csv", "org/a/b"].map(|name| folder.path().join(name));
    assert_eq!(patterns(job.data.test), files);

    let url = DataSetUrl::parse("hf://datasets/org/rows@v1/data/*.csv").unwrap();
    let expect = ("org/rows", Some("v1"), Some("data/*.csv"));
    assert_eq!((url.id.as_str(), url.revision.as_deref(), url.path.as_deref()), expect);
    for wrong in ["hf://datasets/rows", "hf://datasets/org/..", "hf://datasets/org/rows@"] {
        check(
            &format!("data: {{train: \"{wrong}\"}}"),
            &format!(
                "line 1: data.train: `{wrong}` is not hf://datasets/ORG/NAME[@REVISION][/FILE]"
            ),
        );
    }
    check(
        "data: {train: a.csv, revision: main, dataset_config_name: ../x}",
        "line 1: data.revision: applies to a data set of the hub, and there is none
         line 1: data.dataset_config_name: `../x` is no name of the hub",
    );
}

#[test]
fn a_metric_for_the_best_model_is_one_that_is_computed() {
    check(
        "data: {train: a.csv}\ntrain: {metric_for_best_model: f1}",
        "line 2: train.metric_for_best_model: is never computed: there is no data.validation",
    );
    check(
        "train: {metric_for_best_model: f1, do_eval: false}",
        "line 1: train.metric_for_best_model: is never computed: train.do_eval is false",
    );
    check("train: {metric_for_best_model: f1}", "");
}
