//! Values of single keys.

use std::path::{Path, PathBuf};

use serde_json::json;
use traind_job_file::{JobFile, ModelSource, Parsed, ResumeFrom};

use crate::{check, complete, job, lines};

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
            cosine_warmup_with_min_lr, cosine_with_restarts, polynomial, constant, \
            constant_with_warmup, inverse_sqrt, warmup_stable_decay, reduce_lr_on_plateau, not 3",
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
        ("num_train_epochs: 0", "must be above 0 and at most 1000000000, not 0"),
        ("num_train_epochs: 1e12", "must be above 0 and at most 1000000000, not 1000000000000"),
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
fn steps_may_be_a_share_of_all() {
    let warmup = |text: &str| job(&format!("train: {{warmup_steps: {text}}}")).train.warmup_steps;
    assert_eq!(warmup("0.1").resolve(101), 11);
    assert_eq!(warmup("1").resolve(101), 1);
    assert_eq!(warmup("30").resolve(101), 30);
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
        "line 1: train.resume_from_checkpoint: must be a path, auto, true or false, not 5",
    );
}

#[test]
fn a_model_is_a_folder_or_a_hub_id() {
    for id in ["models/bert/base", "org/../name", "a b", "org/", "org/name?x=y"] {
        check(
            &format!("model: {{name_or_path: \"{id}\", task: causal-lm}}"),
            &format!(
                "line 1: model.name_or_path: `{id}` is neither a folder that exists nor a hub id \
                 such as `org/name`"
            ),
        );
    }
    for id in ["bert-base-cased", "google/bert_uncased_L-2_H-128_A-2"] {
        let job = job(&format!("model: {{name_or_path: {id}, task: causal-lm, revision: pr/1}}"));
        assert!(job.reads_hub(), "{id}");
    }
    let base = tempfile::tempdir().unwrap();
    for id in ["smol", "org/name", "models/bert/base"] {
        std::fs::create_dir_all(base.path().join(id)).unwrap();
        let yaml = format!(
            "name: a\nmodel: {{name_or_path: {id}, task: causal-lm}}\ndata: {{train: a.txt}}\n\
             output_dir: out"
        );
        let Parsed { job, warnings } = JobFile::parse(&yaml, base.path()).unwrap();
        assert_eq!(job.model.name_or_path, ModelSource::Folder(base.path().join(id)));
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(warning.to_string().contains(&format!("is read as the folder `./{id}`")));
    }
    check(
        "model: {name_or_path: org/name, task: causal-lm, revision: ../main}",
        "line 1: model.revision: is not a branch, tag or commit",
    );
}

#[test]
fn folders_of_buckets_are_kept_as_they_are() {
    let folders = "output_dir: s3://b/runs/one/\ncheckpoint_dir: kept\ntrain: {resume_from_checkpoint: auto}\n";
    let job = job(folders);
    assert_eq!(job.output_dir, Path::new("s3://b/runs/one"));
    assert_eq!(job.checkpoints(), Path::new("/base/kept"));
    assert_eq!(job.train.resume_from_checkpoint, Some(ResumeFrom::NewestIfAny));
    assert!(job.uses_objects());
    for url in ["s3://b", "s3://b/", "s3://b/../c", "s3://b//c", "gs://b/c", "s3://b/*"] {
        let expect =
            format!("line 1: output_dir: must be a folder or s3://BUCKET/PREFIX, not `{url}`");
        check(&format!("output_dir: '{url}'"), &expect);
    }
}

/// `yaml.safe_load` makes false of `no`, so that a job file which Python had read was refused.
#[test]
fn no_is_no_where_python_read_it() {
    let job = job(
        "train: {save_strategy: false, eval_strategy: false, include_num_input_tokens_seen: false}\n\
                   parallel: {fsdp: false}",
    );
    let job = serde_json::to_value(&job).unwrap();
    let train = &job["train"];
    let no = ["save_strategy", "eval_strategy", "include_num_input_tokens_seen"];
    assert_eq!(no.map(|key| train[key].clone()), [json!("no"), json!("no"), json!("no")]);
    assert_eq!(job["parallel"]["fsdp"], "no");
    check(
        "train: {eval_strategy: true, optim: false}",
        "line 1: train.optim: must be one of adamw_torch, sgd, adafactor, adagrad, muon, lion_32bit, rmsprop, \
            schedule_free_adamw, not false
         line 1: train.eval_strategy: must be one of no, steps, epoch, not true",
    );
}
