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
    check_refused(convert_script("python train.py\n", &[]), &[("", "train.py is no example")]);
}
