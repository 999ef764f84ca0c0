//! Launchers of scripts: their processes and hosts, and what they hand to the Trainer.

use traind_convert::{convert_script, convert_script_with};

use super::{check, check_refused, command, fields};

#[test]
fn a_launcher_says_how_many_cores() {
    let line = "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 examples/pytorch/text-classification/run_glue.py \
        --model_name_or_path x/y --task_name=sst2 --do_train --do_eval --output_dir out --ddp_timeout 3600";
    let expect = [("resources.cores", "2"), ("resources.platform", "cuda")];
    check(command(line), &expect, &["ddp_timeout", "CUDA_VISIBLE_DEVICES"]);
    let line = "accelerate launch --num_processes 4 run_mlm.py --model_name_or_path x/y --train_file a.txt --do_train";
    check(command(line), &[("resources.cores", "4"), ("train.do_eval", "false")], &[]);
}

#[test]
fn a_launcher_of_several_hosts_says_how_many() {
    let check_hosts = |launcher: &str, cores: &str, given: &[(&str, &str)], notes: &[&str]| {
        let line =
            format!("{launcher} run_clm.py --model_name_or_path x/y --train_file a.txt --do_train");
        let converted = convert_script(&line, &fields(given));
        check(converted, &[("resources.hosts", "2"), ("resources.cores", cores)], notes);
    };
    check_hosts("torchrun --nnodes 2 --nproc_per_node 8", "8", &[], &["resources.hosts"]);
    // accelerate counts the processes of all hosts.
    let accelerate = "accelerate launch --num_machines 2 --num_processes 8";
    let given = [("resources.engine", "slurm"), ("slurm.partition", "long")];
    check_hosts(accelerate, "4", &given, &[]);
    let command_of = |launcher: &str| command(&format!("{launcher} run_clm.py --do_train"));
    let uneven = command_of("accelerate launch --num_machines 2 --num_processes 7");
    check_refused(uneven, &[("num_processes", "7 processes cannot be divided among 2 hosts")]);
    check_refused(command_of("torchrun --nnodes 1:4"), &[("nnodes", "number from 1 up")]);
}

/// A launcher of a script: fields of the job, and keys of notes.
#[track_caller]
fn check_launcher(launcher: &str, expect: &[(&str, &str)], notes: &[&str]) {
    let line =
        format!("{launcher} run_mlm.py --model_name_or_path x/y --train_file a.txt --do_train");
    check(command(&line), expect, notes);
}

#[test]
fn accelerate_hands_precision_and_sharding_to_the_trainer() {
    let check_options = |options: &str, expect: &[(&str, &str)], notes: &[&str]| {
        check_launcher(&format!("accelerate launch {options}"), expect, notes);
    };
    check_options("--mixed_precision bf16", &[("train.bf16", "true")], &[]);
    check_options("--mixed-precision=fp16", &[("train.fp16", "true")], &[]);
    check_options("--mixed_precision no", &[("train.fp16", "false")], &[]);
    let sharded = "--use_fsdp --num_processes 2";
    check_options(sharded, &[("parallel.fsdp", "full_shard"), ("resources.cores", "2")], &[]);
    for (strategy, fsdp) in [("SHARD_GRAD_OP", "shard_grad_op"), ("3", "'no'"), ("1", "full_shard")]
    {
        let options = format!("{sharded} --fsdp_sharding_strategy {strategy}");
        check_options(&options, &[("parallel.fsdp", fsdp)], &[]);
    }
    check_options(
        &format!("{sharded} --fsdp_offload_params true --fsdp_auto_wrap_policy NO_WRAP"),
        &[("parallel.offload", "[optimizer]")],
        &["fsdp_auto_wrap_policy", "fsdp_offload_params"],
    );
    check_options(
        "--num_processes 2 --use_deepspeed --zero_stage 3 --offload_optimizer_device cpu",
        &[("parallel.fsdp", "full_shard"), ("parallel.offload", "[optimizer]")],
        &[],
    );
    check_refused(
        command(
            "accelerate launch --mixed_precision fp8 run_mlm.py --do_eval --model_name_or_path x/y",
        ),
        &[("mixed_precision", "bf16, fp16 or no")],
    );
    let sharded = "accelerate launch --use_fsdp --num_processes 2 --fsdp_offload_params ture run_mlm.py --do_eval";
    check_refused(command(sharded), &[("fsdp_offload_params", "must be true or false, not ture")]);
    // The script's own argument comes first, as in the Trainer, and a note names what it overrides.
    let with_fp16 = |precision: &str| {
        command(&format!(
            "accelerate launch --mixed_precision {precision} run_mlm.py --model_name_or_path x/y --train_file a.txt \
             --do_train --fp16"
        ))
    };
    let expect = [("train.fp16", "true"), ("train.bf16", "false")];
    check(with_fp16("bf16"), &expect, &["mixed_precision"]);
    check(with_fp16("fp16"), &expect, &[]);
}

#[test]
fn processes_and_hosts_of_other_launchers() {
    check_launcher("deepspeed --num_gpus 2", &[("resources.cores", "2")], &[]);
    check_launcher("srun -n 4 python", &[("resources.cores", "4")], &[]);
    check_launcher("srun --ntasks 4 numactl python", &[("resources.cores", "4")], &[]);
    check_launcher("mpirun -np 2 python -u", &[("resources.cores", "2")], &[]);
    check_launcher(
        "python -m torch.distributed.launch --nproc_per_node 2",
        &[("resources.cores", "2")],
        &[],
    );
    let two = |cores| [("resources.hosts", "2"), ("resources.cores", cores)];
    check_launcher("deepspeed --num_nodes 2 --num_gpus 8", &two("8"), &["resources.hosts"]);
    check_launcher("srun -N2 -n8 python", &two("4"), &["resources.hosts"]);
    // One process of srun on each host starts eight.
    check_launcher(
        "srun --nodes=2 --ntasks-per-node=1 torchrun --nnodes 2 --nproc_per_node 8",
        &two("8"),
        &["ntasks_per_node", "resources.hosts"],
    );
}

#[test]
fn options_without_an_equivalent_are_dropped_with_a_comment() {
    check_launcher("accelerate launch --config_file fsdp.yaml", &[], &["config_file"]);
    check_launcher("accelerate launch --multi_gpu --gpu_ids 0,1", &[], &["multi_gpu", "gpu_ids"]);
    check_launcher(
        "torchrun --standalone --nproc_per_node 2 --master_port 29500 --node_rank 0",
        &[("resources.cores", "2")],
        &["standalone", "master_port"],
    );
    check_launcher("deepspeed --include localhost:0,1", &[], &["include"]);
    check_launcher("srun --gres=gpu:2 --exclusive python", &[], &["gres", "exclusive"]);
}

/// The file's processes, precision and sharding were once asked for again.
#[test]
fn accelerates_config_file_is_opened() {
    let check_file = |yaml: &str, options: &str, expect: &[(&str, &str)], notes: &[&str]| {
        let line = format!(
            "accelerate launch --config_file fsdp.yaml {options} run_mlm.py --model_name_or_path x/y \
             --train_file a.txt --do_train"
        );
        let files = |path: &std::path::Path| path.ends_with("fsdp.yaml").then(|| yaml.to_owned());
        check(convert_script_with(&line, &[], &files), expect, notes);
    };
    let fsdp = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n  \
        fsdp_sharding_strategy: SHARD_GRAD_OP\n  fsdp_offload_params: false\n  \
        fsdp_transformer_layer_cls_to_wrap: BertLayer\nmixed_precision: bf16\nnum_machines: 1\n\
        num_processes: 4\n";
    let notes = ["fsdp_transformer_layer_cls_to_wrap"];
    let expect =
        [("resources.cores", "4"), ("train.bf16", "true"), ("parallel.fsdp", "shard_grad_op")];
    check_file(fsdp, "", &expect, &notes);
    // Options come before the file's.
    check_file(fsdp, "--num_processes 2", &[("resources.cores", "2")], &notes);
    let zero = "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3}\nnum_processes: 2\n";
    check_file(zero, "", &[("parallel.fsdp", "full_shard"), ("resources.cores", "2")], &[]);
    let gpus = "distributed_type: MULTI_GPU\nnum_processes: 2\n";
    check_file(gpus, "", &[("resources.platform", "cuda")], &[]);
}

/// They were once dropped like options without an equivalent.
#[test]
fn misspelled_options_of_launchers_are_refused() {
    let check_options = |launcher: &str, expect: &[(&str, &str)]| {
        let line =
            format!("{launcher} run_mlm.py --model_name_or_path x/y --train_file a.txt --do_train");
        check_refused(command(&line), expect);
    };
    check_options(
        "torchrun --nproc_per_nod 2 --nnode 2",
        &[("nproc_per_nod", "did you mean `nproc_per_node`?"), ("nnode", "did you mean `nnodes`?")],
    );
    check_options("torchrun --nproc 2", &[("nproc", "did you mean `nproc_per_node`?")]);
    check_options("deepspeed --num_gpu 2", &[("num_gpu", "did you mean `num_gpus`?")]);
    check_options(
        "accelerate launch --mixed_precison bf16 --frobnicate",
        &[
            ("mixed_precison", "did you mean `mixed_precision`?"),
            ("frobnicate", "accelerate has no such option"),
        ],
    );
    check_options(
        "srun --ntask 4 --ntasks-per-nod 2 python",
        &[("ntask", "`ntasks`"), ("ntasks_per_nod", "`ntasks_per_node`")],
    );
    check_options("python xla_spawn.py --num_core 2", &[("num_core", "`num_cores`")]);
    // Those of a program that is not known, such as a container's, are not.
    check_launcher(
        "srun --ntasks-per-core 1 apptainer run --nv x.sif python",
        &[],
        &["ntasks_per_core", "nv"],
    );
    check_launcher("accelerate launch --megatron_lm_tp_degree 1", &[], &["megatron_lm_tp_degree"]);
}

#[test]
fn misspelled_keys_of_accelerates_config_file_are_refused() {
    let yaml = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSPD\nmixed_precison: bf16\nnum_procesess: 2\n\
        fsdp_config: {fsdp_offload_parms: true, sharding_strategy: 2, a_key_of_tomorrow: 1}\n";
    let files = |path: &std::path::Path| path.ends_with("fsdp.yaml").then(|| yaml.to_owned());
    let line = "accelerate launch --config_file fsdp.yaml run_mlm.py --model_name_or_path x/y --train_file a.txt --do_train";
    let expect = [
        ("mixed_precison", "did you mean `mixed_precision`?"),
        ("num_procesess", "did you mean `num_processes`?"),
        ("distributed_type", "is FSPD; did you mean `FSDP`?"),
        ("fsdp_config.fsdp_offload_parms", "did you mean `fsdp_offload_params`?"),
    ];
    check_refused(convert_script_with(line, &[], &files), &expect);
}

/// A number that is none once hid what else is wrong.
#[test]
fn mistakes_of_a_launcher_are_reported_with_those_of_the_script() {
    let line = "accelerate launch --num_processes two --mixed_precision b16 run_mlm.py --model_name_or_path x/y \
        --train_file a.txt --do_train --learning_rat 1e-4 --report_to wndb";
    let expect = [
        ("num_processes", "number from 1 up"),
        ("mixed_precision", "must be bf16, fp16 or no"),
        ("learning_rat", "did you mean `learning_rate`?"),
        ("report_to", "did you mean `wandb`?"),
    ];
    check_refused(command(line), &expect);
}

#[test]
fn misspelled_keys_of_a_file_of_deepspeed_are_refused() {
    let line = "deepspeed --num_gpus 2 run_mlm.py --model_name_or_path x/y --train_file a.txt --do_train --deepspeed ds.json";
    let json = r#"{"bf61": {"enabled": true}, "zero_optimization": {"stage": 2, "offload_optimzer": {"device": "cpu"}}}"#;
    let files = |path: &std::path::Path| path.ends_with("ds.json").then(|| json.to_owned());
    let expect = [
        ("deepspeed.bf61", "did you mean `bf16`?"),
        ("deepspeed.zero_optimization.offload_optimzer", "did you mean `offload_optimizer`?"),
    ];
    check_refused(convert_script_with(line, &[], &files), &expect);
}
