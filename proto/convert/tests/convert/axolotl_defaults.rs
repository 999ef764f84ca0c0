//! axolotl's own defaults, which a file leaves out.

use traind_convert::Source;

use super::{check, check_refused, text};

const SHORT: &str = "base_model: x/y\nlearning_rate: 1e-4\noutput_dir: out\nbf16: false\n\
    datasets:\n  - path: a.jsonl\n    type: completion\n";

/// A file with more keys: fields of the job, and keys of notes.
#[track_caller]
fn check_keys(keys: &str, expect: &[(&str, &str)], notes: &[&str]) {
    check(text(Source::Axolotl, &format!("{SHORT}{keys}"), &[]), expect, notes);
}

#[test]
fn a_short_file_trains_as_axolotl_does() {
    let expect = [
        ("model.task", "sft"),
        ("data.format", "completion"),
        ("data.max_length", "512"),
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
        // Each checkpoint was evaluated.
        ("train.load_best_model_at_end", "true"),
    ];
    check_keys(keys, &expect, &[]);
    let other = keys.replace("save_steps: 5", "save_steps: 7\nload_best_model_at_end: true");
    let expect = [("train.load_best_model_at_end", "false")];
    check_keys(&other, &expect, &["load_best_model_at_end"]);
    let last = format!("{keys}load_best_model_at_end: false\n");
    check_keys(&last, &expect, &[]);
}

/// `auto` is the default, which a file that leaves precision out has.
#[test]
fn precision_is_bfloat16_unless_a_file_says_otherwise() {
    let short = SHORT.replace("bf16: false\n", "max_steps: 20\nlogging_steps: 1\n");
    for (keys, bf16, fp16, notes) in [
        ("", "true", "false", vec!["bf16"]),
        ("bf16: auto\n", "true", "false", vec!["bf16"]),
        ("fp16: true\n", "false", "true", vec![]),
        ("bf16: auto\nfp16: true\n", "false", "true", vec![]),
        ("bfloat16: true\n", "true", "false", vec!["bfloat16"]),
        ("float32: true\n", "false", "false", vec![]),
    ] {
        let expect = [("train.bf16", bf16), ("train.fp16", fp16), ("model.dtype", "float32")];
        check(text(Source::Axolotl, &format!("{short}{keys}"), &[]), &expect, &notes);
    }
    let lora = format!("{short}bf16: true\nadapter: lora\nlora_r: 8\nlora_alpha: 16\n");
    let lora = format!("{lora}lora_target_modules: [q_proj]\n");
    check(text(Source::Axolotl, &lora, &[]), &[("model.dtype", "bfloat16")], &[]);
}

#[test]
fn rows_of_a_step_follow_from_batch_size() {
    let keys = "max_steps: 20\nlogging_steps: 1\nbatch_size: 8\nmicro_batch_size: 2\n";
    check_keys(keys, &[("train.gradient_accumulation_steps", "4")], &["batch_size"]);
    for (more, sentence) in [
        ("gradient_accumulation_steps: 2\n", "is given with gradient_accumulation_steps"),
        ("", "must be a multiple of micro_batch_size, 3"),
    ] {
        let keys = keys.replace("size: 2", if more.is_empty() { "size: 3" } else { "size: 2" });
        let found = text(Source::Axolotl, &format!("{SHORT}{keys}{more}"), &[]);
        check_refused(found, &[("batch_size", sentence)]);
    }
}

#[test]
fn copies_of_shards_are_hosts() {
    let keys = "max_steps: 20\nlogging_steps: 1\ndp_shard_size: 4\ndp_replicate_size: 2\ntensor_parallel_size: 2\n";
    let expect = [
        ("parallel.fsdp", "hybrid_shard"),
        ("parallel.tensor", "2"),
        ("resources.cores", "8"),
        ("resources.hosts", "2"),
    ];
    let with_fsdp = format!("{SHORT}{keys}fsdp_version: 2\n");
    let given = [("resources.engine", "slurm")];
    check(text(Source::Axolotl, &with_fsdp, &given), &expect, &["dp_replicate_size"]);
}

#[test]
fn what_happens_in_an_epoch_is_a_share_of_the_steps() {
    let keys = "num_epochs: 4\nlogging_steps: 1\nwarmup_ratio: 0.1\nval_set_size: 0.1\nsaves_per_epoch: 1\n";
    let expect = [
        ("train.save_strategy", "steps"),
        ("train.save_steps", "0.25"),
        ("train.warmup_steps", "0.1"),
        // There are rows to evaluate on, and nothing asks for it.
        ("train.do_eval", "false"),
    ];
    check_keys(keys, &expect, &["saves_per_epoch", "warmup_ratio", "num_epochs"]);
    let known = keys.replace("num_epochs: 4", "max_steps: 25");
    check_keys(&known, &[("train.warmup_steps", "2"), ("train.save_strategy", "epoch")], &[]);
    let once = format!("{}evals_per_epoch: 1\n", known);
    check_keys(&once, &[("train.eval_strategy", "epoch")], &["evals_per_epoch"]);
}

/// The layout of rows was once lost with the files that `--set` replaces.
#[test]
fn rows_that_are_given_have_the_layout_of_the_file() {
    let file = format!("{SHORT}max_steps: 20\nlogging_steps: 1\n").replace("completion", "alpaca");
    let given = [("data.train", "mine.jsonl")];
    check(text(Source::Axolotl, &file, &given), &[("data.format", "alpaca")], &[]);
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
