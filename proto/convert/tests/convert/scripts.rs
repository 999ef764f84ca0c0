//! Shell scripts that run an example script.

use traind_convert::convert_script;

use super::{check, check_refused};

const TRAIN: &str =
    "run_mlm.py --model_name_or_path x/y --train_file a.txt --do_train --output_dir out";

#[test]
fn redirections_and_pipes_are_left_out() {
    for script in [
        format!("nohup python {TRAIN} --fp16 > log.txt 2>&1 &"),
        format!("python {TRAIN} --fp16 2>&1 | tee log.txt"),
        format!("set -e; cd examples && python {TRAIN} --fp16 >>log.txt || exit 1"),
        format!("#!/bin/bash\nA=1\npython {TRAIN} \\\n  --fp16\necho done --learning_rate 1\n"),
    ] {
        let expect =
            [("train.fp16", "true"), ("output_dir", "/base/out"), ("train.learning_rate", "5e-5")];
        check(convert_script(&script, &[]), &expect, &[]);
    }
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
    check_refused(convert_script(&script, &[]), &[("", "`$seed` has a variable of the shell")]);
}
