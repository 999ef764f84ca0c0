//! Argument lists in the shape of the tools' own examples, and the job files they become or the
//! sentences they are refused with.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

mod argument_files;
mod axolotl;
mod axolotl_defaults;
mod commands;
mod environment;
mod launchers;
mod llama_factory;
mod sagemaker;
mod scripts;
mod training_arguments;
mod trl;

use std::path::Path;

use serde_json::Value;
use traind_convert::{Converted, Refused, Source, convert, convert_script};
use traind_job_file::JobFile;

/// Settings that are converted: every field of `expect` has this value in the resolved job file,
/// and the notes are of these keys.
#[track_caller]
fn check(converted: Result<Converted, Refused>, expect: &[(&str, &str)], notes: &[&str]) {
    let converted = converted.unwrap_or_else(|refused| panic!("{refused}"));
    let yaml = &converted.job_file;
    check_fields("", yaml, expect);
    let keys: Vec<&str> = converted.notes.iter().map(|note| note.key.as_str()).collect();
    assert_eq!(keys, notes, "{yaml}");
    for note in &converted.notes {
        assert!(yaml.contains(&format!("# {note}\n")), "{note} is no comment of\n{yaml}");
    }
}

/// Every field of `expect` has this value in the resolved job file. `of` begins the message otherwise.
#[track_caller]
fn check_fields(of: &str, yaml: &str, expect: &[(&str, &str)]) {
    let parsed = JobFile::parse(yaml, Path::new("/base"))
        .unwrap_or_else(|errors| panic!("{of} {errors:?}\n{yaml}"));
    let job = serde_json::to_value(&parsed.job).unwrap();
    for (path, value) in expect {
        let found = path.split('.').fold(&job, |value, key| &value[key]);
        let wanted: Value = serde_saphyr::from_str(value).unwrap();
        let is_same = match (found.as_f64(), wanted.as_f64()) {
            (Some(found), Some(wanted)) => found == wanted,
            _ => *found == wanted,
        };
        assert!(is_same, "{of} {path} is {found}, not {wanted}\n{yaml}");
    }
}

/// Settings that are refused: each key with part of its sentence.
#[track_caller]
fn check_refused(converted: Result<Converted, Refused>, expect: &[(&str, &str)]) {
    let refused = converted.expect_err("the settings were converted");
    let keys: Vec<&str> = refused.notes.iter().map(|note| note.key.as_str()).collect();
    let wanted: Vec<&str> = expect.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, wanted, "{refused}");
    for (note, (_, sentence)) in refused.notes.iter().zip(expect) {
        assert!(note.text.contains(sentence), "{refused}");
    }
}

fn fields(given: &[(&str, &str)]) -> Vec<(String, String)> {
    given.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect()
}

fn text(source: Source, text: &str, given: &[(&str, &str)]) -> Result<Converted, Refused> {
    let named = convert(Some(source), text, &fields(given));
    assert_eq!(convert(None, text, &fields(given)), named, "the source is recognized");
    named
}

fn command(line: &str) -> Result<Converted, Refused> {
    convert_script(line, &[])
}

#[test]
fn values_that_are_given_come_before_the_source() {
    let given = fields(&[("model.name_or_path", "./mine"), ("train.learning_rate", "1e-3")]);
    let line =
        "run_mlm.py --model_name_or_path x/y --learning_rate 5e-5 --do_train --train_file a.txt";
    let converted = convert_script(line, &given);
    check(
        converted,
        &[("model.name_or_path", "/base/mine"), ("train.learning_rate", "0.001")],
        &[],
    );
}

#[test]
fn values_of_one_mapping_are_given_apart() {
    let given = fields(&[("data.columns.drop", "[id]"), ("data.columns.rename", "{body: text}")]);
    let line = "run_mlm.py --model_name_or_path x/y --do_train --train_file a.txt";
    let expect = [("data.columns.drop", "[id]"), ("data.columns.rename.body", "text")];
    check(convert_script(line, &given), &expect, &[]);
}

#[test]
fn what_is_no_settings_of_a_tool_is_said_so() {
    check_refused(convert(None, "[1, 2]", &[]), &[("", "is a list")]);
    check_refused(convert(None, "text", &[]), &[("", "is not a mapping")]);
    check_refused(convert(None, "", &[]), &[("", "is empty")]);
    for (yaml, sentence) in [
        ("peft_type: LORA\nr: 8", "section peft"),
        ("model_type: bert\nhidden_size: 8", "`traind init MODEL DATA`"),
        ("zero_optimization: {stage: 2}", "set parallel.fsdp"),
        ("log_history: []\nmax_steps: 3", "a Trainer's state"),
        ("model_name_or_path: a/b\ntask_name: sst2\ndo_train: true", "-- python run_glue.py FILE"),
        ("a: 1\na: 2", "duplicate mapping key: a"),
        ("cells: []\nnbformat: 4", "is a notebook"),
        ("from transformers import Trainer\nprint(1)\n", "is Python, which is not run"),
        ("import os\nx = {1: 2}\n", "is Python, which is not run"),
        (
            "from sagemaker.huggingface import HuggingFace\nHuggingFace().fit()\n",
            "import HuggingFace from traind",
        ),
        ("#!/bin/bash\nls\n", "runs no example script"),
        ("#!/usr/bin/env python\nimport os\n", "is Python, which is not run"),
        ("trainer: {max_epochs: 3}\nmodel: {a: 1}\ndata: {b: 1}", "PyTorch Lightning"),
        ("trainer: {max_steps: 3}\nmodel: {restore_from_path: a}", "PyTorch Lightning or NeMo"),
        ("task: llm-sft\nbase_model: a/b\nparams: {lr: 1e-5}", "is AutoTrain's config"),
        ("model_id_or_path: a\nseq_len: 8\nmax_steps: 3", "is mistral-finetune's config"),
        ("checkpoint_dir: a\ndata: {}\ntrain: {epochs: 1}", "is LitGPT's config"),
        ("apiVersion: v1\nkind: PyTorchJob", "is a manifest of Kubernetes"),
        ("resources: {}\nrun: |\n  python run_clm.py --do_train\n", "is a task of SkyPilot"),
        ("PK\0\0", "training_args.to_json_string()"),
    ] {
        check_refused(convert(None, yaml, &[]), &[("", sentence)]);
    }
    check_refused(convert(None, "a: 1", &[]), &[("", "--from")]);
    check_refused(convert(None, "{\"a\": 1}\n{\"a\": 2}\n", &[]), &[("", "is rows of data")]);
    check_refused(convert(None, "{", &[]), &[("", "neither YAML nor JSON")]);
    check_refused(convert(None, "a: 1\n---\nb: 2", &[]), &[("", "more than one YAML document")]);
}

#[test]
fn a_file_of_another_tool_is_said_to_be_its() {
    for (yaml, sentence) in [
        ("model: {_component_: torchtune.models.llama}\nepochs: 1", "is torchtune's config"),
        ("distributed_type: FSDP\nnum_processes: 2", "is accelerate's config file"),
        (
            "model_name_or_path: x/y\ndataset_name: a/b\nlearning_rate: 1e-4",
            "which of TRL's scripts",
        ),
        ("model: {name_or_path: x/y}\ndata: {train: a.txt}", "is a job file already"),
    ] {
        check_refused(convert(None, yaml, &[]), &[("", sentence)]);
    }
}

#[test]
fn a_comment_cannot_become_a_key() {
    let line = "run_mlm.py --model_name_or_path x/y --do_train --train_file a.txt --cache_dir 'x\nname: y' \
        --run_name 'a # b: c'";
    check(command(line), &[("name", "'a # b: c'")], &["cache_dir"]);
}
