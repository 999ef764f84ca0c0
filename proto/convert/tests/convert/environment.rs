//! Variables of the environment, before a launcher or exported by a script.

use traind_convert::{convert_script, convert_script_with};

use super::{check, check_refused, command};

const TRAIN: &str = "run_mlm.py --model_name_or_path x/y --train_file a.txt --do_train";

#[track_caller]
fn check_variables(before: &str, expect: &[(&str, &str)], notes: &[&str]) {
    check(command(&format!("{before} {TRAIN}")), expect, notes);
}

/// bfloat16 and the platform of a job on trn1 were once lost without a note.
#[test]
fn variables_before_a_launcher_are_read() {
    let torchrun = "torchrun --nproc_per_node=2";
    let expect = [("train.bf16", "true"), ("resources.cores", "2")];
    check_variables(&format!("XLA_USE_BF16=1 {torchrun}"), &expect, &["XLA_USE_BF16"]);
    check_variables(
        &format!("env XLA_DOWNCAST_BF16=1 {torchrun}"),
        &expect,
        &["XLA_DOWNCAST_BF16"],
    );
    check_variables(&format!("XLA_USE_BF16=0 {torchrun}"), &[("train.bf16", "false")], &[]);
    let neuron =
        format!("NEURON_CC_FLAGS='--model-type=transformer' NEURON_RT_NUM_CORES=2 {torchrun}");
    let notes = ["NEURON_CC_FLAGS", "NEURON_RT_NUM_CORES"];
    check_variables(&neuron, &[("resources.platform", "neuron")], &notes);
    let mpi = "mpirun -np 2 -x XLA_USE_BF16=1 python";
    check_variables(mpi, &[("train.bf16", "true")], &["x", "XLA_USE_BF16"]);
    check_variables("ACCELERATE_MIXED_PRECISION=fp16 python", &[("train.fp16", "true")], &[]);
    for none in ["", "-1", "none"] {
        let variable = format!("CUDA_VISIBLE_DEVICES={none} python");
        check_variables(&variable, &[("resources.platform", "cpu")], &[]);
    }
    // The first device, and no switch.
    let expect = [("resources.platform", "cuda"), ("resources.cores", "1")];
    check_variables("CUDA_VISIBLE_DEVICES=0 python", &expect, &["CUDA_VISIBLE_DEVICES"]);
    let expect = [("resources.platform", "cuda"), ("resources.cores", "2")];
    check_variables("CUDA_VISIBLE_DEVICES=0,3 python", &expect, &[]);
    let notes = ["WANDB_ENTITY", "MY_SWITCH"];
    let places = "WANDB_PROJECT=tweets WANDB_ENTITY=ann MY_SWITCH=1 python";
    check_variables(places, &[("train.project", "tweets")], &notes);
}

#[test]
fn launchers_of_neuron_say_the_platform() {
    let expect = [("resources.platform", "neuron"), ("resources.cores", "32")];
    check_variables(
        "neuron_parallel_compile torchrun --nproc_per_node 32",
        &expect,
        &["neuron_parallel_compile"],
    );
    check_variables("python xla_spawn.py --num_cores 32", &expect, &["xla_spawn.py"]);
    check_variables("PJRT_DEVICE=NEURON torchrun --nproc_per_node 32", &expect, &[]);
    let line = format!("PJRT_DEVICE=TPU python {TRAIN}");
    check_refused(command(&line), &[("PJRT_DEVICE", "cpu, cuda or neuron")]);
}

#[test]
fn exported_variables_are_of_the_command_that_follows() {
    let script = format!(
        "export PATH=$PATH:/opt\nexport XLA_USE_BF16=1 NEURON_CC_FLAGS=-O1\n\
         torchrun --nproc_per_node=2 {TRAIN}\nexport WANDB_PROJECT=other\n"
    );
    let expect =
        [("train.bf16", "true"), ("resources.platform", "neuron"), ("train.project", "null")];
    check(convert_script(&script, &[]), &expect, &["XLA_USE_BF16", "NEURON_CC_FLAGS"]);
    let unknown = format!("export XLA_USE_BF16=$PRECISION\npython {TRAIN}\n");
    check_refused(convert_script(&unknown, &[]), &[("", "variable of the shell")]);
}

#[test]
fn a_trial_run_that_compiles_is_no_second_job() {
    let script = format!(
        "neuron_parallel_compile torchrun --nproc_per_node 2 {TRAIN} --max_steps 10\n\
         torchrun --nproc_per_node 2 {TRAIN}\n"
    );
    check(convert_script(&script, &[]), &[("train.max_steps", "-1")], &[""]);
}

/// Processes that LLaMA-Factory starts were set, and said to be dropped.
#[test]
fn processes_that_a_tool_starts_are_no_unknown_variables() {
    let yaml = "model_name_or_path: x/y\nstage: sft\nfinetuning_type: full\ndataset: alpaca_en_demo\n\
                template: llama3\n";
    let line = "FORCE_TORCHRUN=1 NNODES=2 NODE_RANK=0 NPROC_PER_NODE=8 MASTER_ADDR=a llamafactory-cli train a.yaml";
    let given = [("resources.engine".to_owned(), "slurm".to_owned())];
    let read = |path: &std::path::Path| path.ends_with("a.yaml").then(|| yaml.to_owned());
    let converted = convert_script_with(line, &given, &read);
    let expect = [("resources.hosts", "2"), ("resources.cores", "8")];
    check(converted, &expect, &["do_train", "FORCE_TORCHRUN", "NODE_RANK", "MASTER_ADDR"]);
}
