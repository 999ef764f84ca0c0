//! Shell scripts that run an example script.

use traind_convert::{convert, convert_script};

use super::{check, check_fields, check_refused};

const TRAIN: &str =
    "run_mlm.py --model_name_or_path x/y --train_file a.txt --do_train --output_dir out";

#[test]
fn redirections_and_pipes_are_left_out() {
    for script in [
        format!("nohup python {TRAIN} --fp16 > log.txt 2>&1 &"),
        format!("python {TRAIN} --fp16 2>&1 | tee log.txt"),
        format!("set -e; python {TRAIN} --fp16 >>log.txt || exit 1"),
        format!("#!/bin/bash\nA=1\npython {TRAIN} \\\n  --fp16\necho done --learning_rate 1\n"),
    ] {
        let expect =
            [("train.fp16", "true"), ("output_dir", "/base/out"), ("train.learning_rate", "5e-5")];
        check(convert_script(&script, &[]), &expect, &[]);
    }
}

/// Only commands of transformers' example scripts had the variables that a script exports, and of several commands of
/// other tools the first was taken.
#[test]
fn commands_of_every_tool_have_the_exported_variables() {
    let lf = "model_name_or_path: x/y\nstage: sft\nfinetuning_type: full\n\
              dataset: alpaca_en_demo\ntemplate: llama3\n";
    let axolotl = "base_model: x/y\ndatasets: [{path: a/b, type: alpaca}]\n";
    let files = |path: &std::path::Path| match path.to_str() {
        Some("lf.yaml") => Some(lf.to_owned()),
        Some("a.yml") => Some(axolotl.to_owned()),
        _ => None,
    };
    let exports = "export CUDA_VISIBLE_DEVICES=0,1\nexport WANDB_PROJECT=food\nexport FOO=1\n";
    for command in [
        "trl sft --model_name_or_path x/y --dataset_name a/b",
        "accelerate launch sft.py --model_name_or_path x/y --dataset_name a/b",
        "axolotl train a.yml",
        "llamafactory-cli train lf.yaml",
    ] {
        let expect =
            [("train.project", "food"), ("resources.platform", "cuda"), ("resources.cores", "2")];
        let converted =
            traind_convert::convert_script_with(&format!("{exports}{command}\n"), &[], &files);
        let converted = converted.unwrap_or_else(|refused| panic!("{command}: {refused}"));
        check_fields(command, &converted.job_file, &expect);
        assert!(converted.notes.iter().any(|note| note.key == "FOO"), "{command}");
    }
    let several = "trl sft --model_name_or_path x/y --dataset_name a/b\n\
                   trl dpo --model_name_or_path x/y --dataset_name a/b\n";
    let expect = "the script has several training commands, on line 1 and line 2";
    check_refused(convert_script(several, &[]), &[("", expect)]);
}

/// Relative paths of the command are of another folder than those of a job file.
#[test]
fn a_change_of_the_folder_is_noted() {
    for folder in ["cd examples &&", "%cd examples\n!", "cd a\ncd examples\n"] {
        let script = format!("{folder} python {TRAIN}");
        let converted = convert_script(&script, &[]);
        let note = &converted.as_ref().unwrap().notes[0].text;
        assert!(note.starts_with("the command runs in examples:"), "{note}");
        check(converted, &[("name", "out")], &["cd"]);
    }
    let script = format!("python {TRAIN}\ncd out\n");
    check(convert_script(&script, &[]), &[("name", "out")], &[]);
}

/// Cells of notebooks, scripts for Slurm and commands in files of any name.
#[test]
fn scripts_are_recognized_by_their_content() {
    for script in [
        format!("#!/bin/bash\n#SBATCH --nodes=1\nsrun python {TRAIN} --fp16\n"),
        format!("!python {TRAIN} \\\n  --fp16\n"),
        format!("%%bash\npython {TRAIN} --fp16\n"),
        format!("$ CUDA_VISIBLE_DEVICES= torchrun {TRAIN} --fp16"),
        format!("python {TRAIN} `\r\n  --fp16\r\n"),
        format!("ARGS=(\n  --fp16 # half\n)\npython {TRAIN} \"${{ARGS[@]}}\"\n"),
    ] {
        let converted =
            convert(None, &script, &[]).unwrap_or_else(|refused| panic!("{script}: {refused}"));
        check_fields(&script, &converted.job_file, &[("train.fp16", "true"), ("name", "out")]);
    }
    let script = "set MODEL=x/y\npython run_mlm.py --model_name_or_path %MODEL% ^\n  --do_train\n";
    check_refused(convert(None, script, &[]), &[("", "`%MODEL%` has a variable of the shell")]);
    // Settings whose values are commands stay settings.
    let yaml = "name: a\nrun: |\n  python run_mlm.py --do_train\nresources: {}\n";
    check_refused(convert(None, yaml, &[]), &[("", "is a task of SkyPilot")]);
    for yaml in ["stages: {train: {cmd: python a.py}}", "services: {train: {command: python a.py}}"]
    {
        check_refused(convert(None, yaml, &[]), &[("", "has commands that another tool runs")]);
    }
    let unknown = "input_features: [{name: text}]\ntrainer: {epochs: 3}\n";
    check_refused(convert(None, unknown, &[]), &[("", "begin with `traind init MODEL DATA`")]);
}

#[test]
fn other_python_files_are_noted() {
    for other in ["python prepare.py --out a.txt", "wget https://example.org/run_mlm.py"] {
        let script = format!("{other}\npython {TRAIN}\n");
        check(convert_script(&script, &[]), &[("name", "out")], &[""]);
    }
}

/// Two commands of one script once became one job with the arguments of both.
#[test]
fn several_training_commands_are_refused_with_their_lines() {
    let script = format!("# sweep\npython {TRAIN} --fp16\n\npython {TRAIN} --learning_rate 1e-3\n");
    check_refused(convert_script(&script, &[]), &[("", "on line 2 and line 4;")]);
    let script = format!("python {TRAIN}; python run_ner.py --do_train");
    check_refused(convert_script(&script, &[]), &[("", "on line 1;")]);
}

#[test]
fn scripts_without_a_training_command() {
    check_refused(convert_script("ls -l\n", &[]), &[("", "no example script")]);
    check_refused(convert_script("", &[]), &[("", "no example script")]);
    check_refused(
        convert_script("python train.py\n", &[]),
        &[("", "train.py is not a known example")],
    );
}

/// The command of the examples' own documentation.
#[test]
fn variables_that_a_script_sets_are_put_in() {
    let script = "export TASK_NAME=mrpc\nLR=${1:-2e-5}\nARGS=\"--do_eval --seed 7\"\n\
        python run_glue.py --task_name $TASK_NAME --model_name_or_path x/y --learning_rate $LR $ARGS \
        --do_train --output_dir /tmp/$TASK_NAME/\n";
    let expect = [
        ("data.dataset_config_name", "mrpc"),
        ("output_dir", "/tmp/mrpc"),
        ("train.learning_rate", "2e-5"),
        ("train.seed", "7"),
    ];
    check(convert_script(script, &[]), &expect, &["1", "TASK_NAME"]);
    let script = format!("for seed in 1 2; do\npython {TRAIN} --seed $seed\ndone\n");
    let words = "line 2 trains once for each value, and a job file once: the loop on line 1 gives `seed` the values 1, 2; \
        convert the first with `traind convert --output job.yaml -- python run_mlm.py";
    let refused = convert_script(&script, &[]).unwrap_err().to_string();
    assert!(refused.contains(words) && refused.contains("--seed 1`"), "{refused}");
}

#[test]
fn loops_that_nest_or_list_are_refused_with_their_values() {
    let script = format!(
        "for lr in 1e-5 2e-5; do\nfor s in {{1..3}}; do\n!python {TRAIN} --seed $s --run_name 'a b$lr'\ndone\ndone\n"
    );
    let refused = convert_script(&script, &[]).unwrap_err().to_string();
    for words in
        ["`lr` the values 1e-5, 2e-5", "`s` the values 1, 2, 3", "--seed 1 --run_name 'a b1e-5'`"]
    {
        assert!(refused.contains(words), "{refused}");
    }
    let script = format!("for s in 1 2; do python {TRAIN} --seed $s; done");
    let refused = convert_script(&script, &[]).unwrap_err().to_string();
    assert!(refused.contains("-- python run_mlm.py"), "{refused}");
    // The first value is not that of every run.
    let script =
        format!("i=0\nwhile [ $i -lt 3 ]; do\npython {TRAIN} --seed $i\ni=$((i+1))\ndone\n");
    check_refused(convert_script(&script, &[]), &[("", "`$i` has a variable of the shell")]);
    let script = format!("for f in $(ls *.txt); do\npython {TRAIN} --validation_file $f\ndone\n");
    check_refused(convert_script(&script, &[]), &[("", "write one of them in the command")]);
    // A loop that does not reach the command is none of its own.
    let script = format!("for f in a b; do\necho $f\ndone\npython {TRAIN}\n");
    check(convert_script(&script, &[]), &[("name", "out")], &[]);
}
