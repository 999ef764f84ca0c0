//! axolotl's own defaults, which a file leaves out.

use traind_convert::Source;

use super::{check, check_refused, text};

const SHORT: &str = "base_model: x/y\nlearning_rate: 1e-4\noutput_dir: out\n\
    datasets:\n  - path: a.jsonl\n    type: completion\n";

/// A file with more keys: fields of the job, and keys of notes.
#[track_caller]
fn check_keys(keys: &str, expect: &[(&str, &str)], notes: &[&str]) {
    check(text(Source::Axolotl, &format!("{SHORT}{keys}"), &[]), expect, notes);
}

#[test]
fn a_short_file_trains_as_axolotl_does() {
    let expect = [
        ("data.block_size", "512"),
        ("train.num_train_epochs", "1"),
        ("train.per_device_train_batch_size", "1"),
        ("train.per_device_eval_batch_size", "1"),
        ("train.lr_scheduler_type", "cosine"),
        ("train.warmup_steps", "0.03"),
        ("train.save_strategy", "epoch"),
        ("train.save_total_limit", "4"),
        ("train.eval_strategy", "'no'"),
    ];
    check_keys("", &expect, &["warmup_steps", "logging_steps"]);
}

#[test]
fn warmup_is_3_percent_of_known_steps_and_at_most_100() {
    for (steps, warmup) in [(20, "0"), (50, "2"), (99, "2"), (1000, "30"), (5000, "100")] {
        let keys = format!("max_steps: {steps}\nlogging_steps: 1\n");
        check_keys(&keys, &[("train.warmup_steps", warmup)], &[]);
    }
    check_keys("warmup_steps: 7\nlogging_steps: 1\n", &[("train.warmup_steps", "7")], &[]);
}

#[test]
fn a_number_of_steps_is_a_strategy() {
    let keys = "max_steps: 20\nlogging_steps: 1\nval_set_size: 0.1\neval_steps: 5\nsave_steps: 5\n";
    let expect = [
        ("train.eval_strategy", "steps"),
        ("train.eval_steps", "5"),
        ("train.eval_on_start", "true"),
        ("train.save_strategy", "steps"),
    ];
    check_keys(keys, &expect, &[]);
}

/// `val_set_size: 0` with `evals_per_epoch` once ended in a sentence about `eval_strategy`.
#[test]
fn without_rows_there_are_no_evaluations() {
    let keys = "max_steps: 20\nlogging_steps: 1\nval_set_size: 0\nevals_per_epoch: 2\n";
    check_keys(keys, &[("train.eval_strategy", "'no'")], &["evals_per_epoch"]);
    let found = text(Source::Axolotl, &format!("{SHORT}{keys}"), &[]).unwrap();
    assert!(found.job_file.contains("give val_set_size a share above 0"), "{}", found.job_file);
    // Rows that the caller gives are evaluated on.
    let given = [("data.validation", "dev.jsonl")];
    let expect = [("train.eval_strategy", "steps"), ("train.eval_steps", "0.5")];
    check(text(Source::Axolotl, &format!("{SHORT}{keys}"), &given), &expect, &["evals_per_epoch"]);
}

/// Both keys together were once "given twice".
#[test]
fn modules_add_to_every_linear_layer() {
    let lora = "max_steps: 20\nlogging_steps: 1\nadapter: lora\nlora_target_linear: true\n";
    let both = format!("{lora}lora_target_modules: [q_proj, v_proj]\n");
    check_keys(&both, &[("peft.target_modules", "all-linear")], &["lora_target_modules"]);
    let more = format!("{SHORT}{lora}lora_target_modules: [q_proj, embed_tokens]\n");
    let sentence = [("lora_target_modules", "leave out lora_target_linear")];
    check_refused(text(Source::Axolotl, &more, &[]), &sentence);
}
