//! Configs and command lines of TRL.

use std::path::Path;

use traind_convert::{Source, convert, convert_command};

use crate::{check, check_fields, check_refused, command};

const SFT: &str = "
model_name_or_path: org/small
dataset_name: org/talks
dataset_test_split: held
eval_strategy: steps
eval_steps: 50
packing: true
eos_token: <|im_end|>
use_peft: true
lora_target_modules: all-linear
dtype: bfloat16
attn_implementation: flash_attention_2
learning_rate: 2.0e-4
output_dir: out/sft
";

#[test]
fn supervised_fine_tuning_has_the_defaults_of_trl() {
    let expect = [
        ("model.task", "sft"),
        ("model.dtype", "bfloat16"),
        ("data.max_length", "1024"),
        ("data.packing", "true"),
        ("data.eos_token", "<|im_end|>"),
        ("train.learning_rate", "2e-4"),
        ("train.logging_steps", "10"),
        ("train.gradient_checkpointing", "true"),
        ("train.bf16", "true"),
        ("peft.r", "16"),
        ("peft.lora_alpha", "32"),
        ("peft.lora_dropout", "0.05"),
        ("peft.target_modules", "all-linear"),
    ];
    check(convert(None, SFT, &[]), &expect, &["attn_implementation"]);
    let converted = convert(Some(Source::Trl), SFT, &[]).unwrap().job_file;
    assert!(converted.contains("train: org/talks"), "{converted}");
    assert!(converted.contains("\"split\":\"held\""), "{converted}");
    let own =
        SFT.replace("packing: true", "fp16: true\nmax_length: 2048\nassistant_only_loss: true");
    let expect = [("train.bf16", "false"), ("train.fp16", "true"), ("data.max_length", "2048")];
    check_fields("fp16", &convert(None, &own, &[]).unwrap().job_file, &expect);
}

#[test]
fn preferences_have_a_section() {
    let dpo = "model_name_or_path: org/small\ndataset_name: org/pairs\nbeta: 0.2\nloss_type: [sigmoid, sft]\n\
               loss_weights: [1.0, 0.5]\nprecompute_ref_log_probs: true\noutput_dir: out/dpo\n";
    let expect = [
        ("model.task", "dpo"),
        ("dpo.beta", "0.2"),
        ("dpo.loss_weights", "[1.0, 0.5]"),
        ("train.learning_rate", "1e-6"),
    ];
    check(convert(None, dpo, &[]), &expect, &["precompute_ref_log_probs"]);
}

#[test]
fn other_preferences_are_read_by_their_scripts() {
    let given = "--model_name_or_path x/y --dataset_name x/z --output_dir out";
    let usual = ("train.learning_rate", "1e-6");
    for (line, expect, notes) in [
        (
            "trl kto --beta 0.3 --desirable_weight 1.2 --precompute_ref_log_probs true --no_gradient_checkpointing \
             --no-disable-dropout",
            vec![
                ("model.task", "kto"),
                ("train.gradient_checkpointing", "false"),
                ("kto.disable_dropout", "false"),
                ("kto.beta", "0.3"),
                ("kto.desirable_weight", "1.2"),
                ("train.train_sampling_strategy", "sequential"),
                usual,
            ],
            vec!["precompute_ref_log_probs"],
        ),
        (
            "python examples/scripts/orpo.py --beta 0.2 --no_remove_unused_columns",
            vec![("model.task", "orpo"), ("orpo.beta", "0.2"), usual],
            vec![],
        ),
        (
            "python cpo.py --loss_type alphapo --alpha 0.25 --simpo_gamma 0.1 --cpo_alpha 0.5",
            vec![
                ("model.task", "cpo"),
                ("cpo.loss_type", "alphapo"),
                ("cpo.alpha", "0.25"),
                ("cpo.simpo_gamma", "0.1"),
                usual,
            ],
            vec!["cpo_alpha"],
        ),
        (
            "accelerate launch reward_modeling.py --center_rewards_coefficient 0.01 --lora_task_type SEQ_CLS",
            vec![
                ("model.task", "reward"),
                ("reward.center_rewards_coefficient", "0.01"),
                ("train.learning_rate", "1e-4"),
            ],
            vec!["lora_task_type"],
        ),
    ] {
        let converted = command(&format!("{line} {given}"));
        let task = expect[0].1;
        let header = format!("# Made of a command line of TRL's {task} by");
        assert!(converted.as_ref().unwrap().job_file.starts_with(&header), "{line}");
        check(converted, &expect, &notes);
    }
}

#[test]
fn a_file_of_other_preferences_is_known_by_its_keys() {
    let plain = "model_name_or_path: org/small\ndataset_name: org/pairs\noutput_dir: out\n";
    for (keys, task) in [
        ("undesirable_weight: 1.3", "kto"),
        ("loss_type: apo_zero_unpaired", "kto"),
        ("cpo_alpha: 0.5", "cpo"),
        ("loss_type: simpo\nbeta: 2.0", "cpo"),
        ("center_rewards_coefficient: 0.01", "reward"),
        ("ld_alpha: 0.5\nbeta: 0.2", "dpo"),
    ] {
        let converted = convert(None, &format!("{plain}{keys}\n"), &[]).unwrap().job_file;
        check_fields(keys, &converted, &[("model.task", task)]);
    }
    check_refused(
        convert(None, &format!("{plain}beta: 0.2\n"), &[]),
        &[("", "model.task=sft, or dpo")],
    );
}

#[test]
fn a_file_for_either_script_is_asked_about() {
    let plain = "model_name_or_path: org/small\ndataset_name: org/talks\noutput_dir: out\n";
    check_refused(convert(None, plain, &[]), &[("", "--set model.task=sft")]);
    let task = [("model.task".to_owned(), "sft".to_owned())];
    let converted = convert(None, plain, &task).unwrap().job_file;
    check_fields(
        "sft",
        &converted,
        &[("train.learning_rate", "2e-5"), ("data.max_length", "1024")],
    );
    let quantized = format!("{SFT}load_in_4bit: true\nnum_generations: 4\n");
    check_refused(
        convert(None, &quantized, &[]),
        &[("load_in_4bit", "not quantized"), ("num_generations", "is not known here")],
    );
}

#[test]
fn command_lines_of_trl_are_read_with_their_files() {
    let line = "accelerate launch --num_processes 4 trl/scripts/dpo.py --model_name_or_path x/y --dataset_name x/z \
        --beta 0.3 --output_dir out";
    let expect = [("model.task", "dpo"), ("dpo.beta", "0.3"), ("resources.cores", "4")];
    check(command(line), &expect, &[]);
    let words: Vec<String> =
        "trl sft --config sft.yaml --learning_rate 1e-5".split(' ').map(str::to_owned).collect();
    let read = |path: &Path| (path == Path::new("sft.yaml")).then(|| SFT.to_owned());
    let converted = convert_command(&words, &[], &read).unwrap().job_file;
    let expect = [("train.learning_rate", "1e-5"), ("data.packing", "true"), ("peft.r", "16")];
    check_fields("config", &converted, &expect);
    let missing = convert_command(&words, &[], &|_| None);
    check_refused(missing, &[("config", "sft.yaml cannot be read")]);
    // The option of an example script is no file of TRL's, whatever its folders are called.
    let example = "python run_clm.py --model_name_or_path x/y --dataset_name x/z --output_dir a/sft.py --config b.yaml";
    check_refused(command(example), &[("config", "is not known here")]);
    check_refused(
        command("trl grpo --model_name_or_path x/y"),
        &[("", "sft, dpo, reward, kto, orpo and cpo are")],
    );
}

/// `datasets` was once refused with advice that did not help.
#[test]
fn several_data_sets_are_a_list() {
    let sets = |text: &str| {
        format!(
            "model_name_or_path: a/b\nbeta: 0.2\nf_divergence_type: reverse_kl\noutput_dir: o\n{text}"
        )
    };
    let check_sets = |text: &str, train: &str, notes: &[&str]| {
        let converted = convert(None, &sets(text), &[]).unwrap();
        let line = format!("train: {train}  # ");
        assert!(converted.job_file.contains(&line), "{}", converted.job_file);
        let found: Vec<&str> = converted.notes.iter().map(|note| note.key.as_str()).collect();
        assert_eq!(found, notes);
    };
    check_sets(
        "datasets:\n- {path: c/d}\n- {path: json, data_files: e.jsonl, split: train}\ntest_split_size: 0.1",
        r#"[{"path":"c/d","split":"train"},{"path":"e.jsonl","split":"train"}]"#,
        &[],
    );
    check_sets(
        "dataset_mixer: {c/d: 1.0, e/f: 0.5}\ndataset_splits: [train_prefs, test_prefs]",
        r#"[{"path":"c/d","split":"train_prefs"},{"path":"e/f","split":"train_prefs[:50%]"}]"#,
        &["dataset_mixer"],
    );
    check_sets(
        "dataset_mixture:\n  datasets:\n  - {id: c/d, config: all, split: train, weight: 1.0}\n  seed: 1",
        r#"[{"path":"c/d","split":"train"}]"#,
        &[],
    );
    for (text, sentence) in [
        ("datasets: [{path: c/d, name: x}, {path: e/f, name: y}]", "several configurations"),
        ("dataset_mixer: {c/d: 0.333}", "no share in whole percent"),
        ("datasets: c/d", "--set data.train"),
    ] {
        let key = text.split(':').next().unwrap();
        check_refused(convert(None, &sets(text), &[]), &[(key, sentence)]);
    }
}

/// They had to be named by `--from trl`, and then trained nothing: `do_train` of a config is false.
#[test]
fn configs_that_python_wrote_are_known_by_their_keys() {
    let given = [("model.name_or_path", "x/y"), ("data.train", "a/b")]
        .map(|(field, value)| (field.to_owned(), value.to_owned()));
    let common = r#""output_dir": "out", "do_train": false, "do_eval": false, "learning_rate": 0.001, "report_to": []"#;
    let sft = format!(
        r#"{{{common}, "dataset_text_field": "body", "packing": false, "padding_free": false, "max_length": 64,
           "assistant_only_loss": false, "truncation_mode": "keep_start", "loss_type": "nll", "eos_token": null}}"#
    );
    let expect = [
        ("model.task", "sft"),
        ("data.text", "body"),
        ("train.learning_rate", "1e-3"),
        ("train.do_train", "true"),
    ];
    check(convert(None, &sft, &given), &expect, &["do_train"]);
    let dpo = format!(
        r#"{{{common}, "beta": 0.2, "loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.5], "padding_free": false,
           "precompute_ref_log_probs": true, "sync_ref_model": false, "truncation_mode": "keep_start"}}"#
    );
    let expect = [("model.task", "dpo"), ("dpo.beta", "0.2"), ("dpo.loss_weights", "[1.0, 0.5]")];
    check(convert(None, &dpo, &given), &expect, &["precompute_ref_log_probs", "do_train"]);
}
