//! Names of keys: unknown, old and overridden ones, and their documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use traind_job_file::{Fsdp, JobFile, TrainSamplingStrategy, fields};

use crate::{check, complete, job, lines};

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
        "resources: {number_of_cores: 2}",
        "line 1: resources.number_of_cores: is not a known key; did you mean `resources.cores`?",
    );
    check(
        "data: {train: a.csv, text_columns: body}",
        "line 1: data.text_columns: is not a known key; did you mean `data.text`?",
    );
    check(
        "train: {epochs: 3, output_dir: out}",
        "line 1: train.epochs: is not a known key; did you mean `train.num_train_epochs`?
         line 1: train.output_dir: is not a known key; `output_dir` is a key of the job, outside of all sections",
    );
    check("resources: {zzzzzz: 1}", "line 1: resources.zzzzzz: is not a known key");
}

#[test]
fn the_trainers_fsdp_is_read_as_that_of_the_cores() {
    check(
        "train:\n  fsdp: full_shard auto_wrap",
        "line 2: train.fsdp: is read as `parallel.fsdp: full_shard`",
    );
    let fsdp = |section: &str| job(section).parallel.sharding();
    assert_eq!(fsdp("train: {fsdp: [auto_wrap, shard_grad_op]}"), Fsdp::ShardGradOp);
    assert_eq!(fsdp("parallel: {data: 1}\ntrain: {fsdp: true}"), Fsdp::FullShard);
    assert_eq!(fsdp("train: {fsdp: hybrid_shard auto_wrap}"), Fsdp::HybridShard);
    assert_eq!(fsdp("train: {fsdp: [hybrid_shard_zero2]}"), Fsdp::HybridShardZero2);
    assert_eq!(fsdp("train: {fsdp: false}"), Fsdp::No);
    assert_eq!(fsdp("parallel: {shard_optimizer_state: true}"), Fsdp::ShardOptimizer);
    check(
        "parallel:\n  fsdp: full_shard auto_wrap",
        "line 2: parallel.fsdp: `full_shard auto_wrap` is read as `full_shard`",
    );
    check(
        "parallel: {fsdp: no}\ntrain: {fsdp: full_shard}",
        "line 2: train.fsdp: is an alias of `parallel.fsdp`; set only one of the two",
    );
    check(
        "train: {fsdp: full_shard offload}",
        "line 1: train.fsdp: is read as `parallel.fsdp: full_shard`\nline 1: train.fsdp: is read as \
         `parallel.offload: optimizer`; parameters and gradients stay on the cores",
    );
    check(
        "train: {fsdp: zero3}",
        "line 1: train.fsdp: is not supported: use full_shard, shard_grad_op, hybrid_shard or hybrid_shard_zero2, which are read as parallel.fsdp",
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
        "line 1: train.evaluation_strategy: is an alias of `eval_strategy`; set only one of the two",
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
        ("data.validation", "*.csv"),
    ])
    .unwrap()
    .job;
    assert_eq!((job.train.seed, job.train.learning_rate), (7, 3e-5));
    assert_eq!(job.data_parallel_size(), 2);
    assert_eq!(job.model.config_overrides["hidden_dropout_prob"], 0.0);
    assert_eq!(job.data.validation.unwrap().patterns, [Path::new("/base/*.csv")]);

    let violations = parse(&[("train.seed", "x"), ("name.first", "y"), ("train.", "1")]);
    assert_eq!(
        lines(&violations.unwrap_err()),
        "name.first: is not the path of a field\n\
         train.: is not the path of a field\n\
         train.seed: must be an integer, not the text `x`"
    );
}

/// Each part of a path is a level of recursion, and 10,000 of them once overflowed the daemon's stack.
#[test]
fn overlong_paths_of_overrides_are_refused() {
    let path = "a.".repeat(10_000) + "a";
    let values = BTreeMap::from([(path, "1".to_owned())]);
    let parsed = JobFile::parse_with_overrides(&complete(""), &values, Path::new("/base"));
    let violations = lines(&parsed.unwrap_err());
    assert!(
        violations.ends_with("has 10001 parts; the path of a field has at most 16"),
        "{violations}"
    );
    assert!(violations.len() < 300, "{violations}");
}

#[test]
fn every_field_is_documented() {
    let mut json = serde_json::to_value(job("")).unwrap();
    for (section, inner) in [
        ("data", "columns"),
        ("data", "fields"),
        ("data", "prompt_template"),
        ("train", "generation_config"),
        ("model", "add_special_tokens"),
    ] {
        let keys = json[section].as_object_mut().unwrap().remove(inner).unwrap();
        json[format!("{section}.{inner}")] = keys;
    }
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
    assert_eq!(beta.doc, "Decay rate of Adam's mean of gradients, and Lion's first rate.");
    let strategy = of("train.eval_strategy");
    assert_eq!(strategy.type_name, "`no`, `steps`, `epoch`");
    assert_eq!(strategy.default.as_deref(), Some("no"));
    assert!(of("model.task").required);
    assert_eq!((of("data.validation").required, of("data.validation").default), (false, None));
}
