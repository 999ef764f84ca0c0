//! The table: a line for each argument, in groups.

use super::Argument;
use super::Treatment::{Always, NoEffect, Only, Refused};

/// `name: default, treatment;`
macro_rules! arguments {
    ($($name:ident: $default:literal, $treatment:expr;)+) => {
        &[$(Argument { name: stringify!($name), default: $default, treatment: $treatment }),+]
    };
}

/// All of them.
pub(crate) const ALL: &[&[Argument]] =
    &[COMPUTATION, REPORTING, EVALUATION, SAVING, HUB, DATA, DISTRIBUTION, FORMER];

const COMPILED: &str = "every step is one compiled program";
const BATCHED: &str =
    "metrics are computed over all rows of a split, whose outputs leave the device batch by batch";

const COMPUTATION: &[Argument] = arguments! {
    optim_target_modules: "null", Refused("all weights are trained by one optimizer; leave it out");
    average_tokens_across_devices: "true", Always("the loss is a mean over the tokens of all cores");
    bf16_full_eval: "false", Refused("evaluation computes in the type of training; use bf16");
    fp16_full_eval: "false", Refused("evaluation computes in the type of training; use fp16");
    activation_checkpointing_kwargs: "null", NoEffect("activations are recomputed layer by layer");
    gradient_checkpointing_kwargs: "null", NoEffect("activations are recomputed layer by layer");
    torch_compile: "false", NoEffect(COMPILED);
    torch_compile_backend: "null", NoEffect(COMPILED);
    torch_compile_mode: "null", NoEffect(COMPILED);
    use_liger_kernel: "false", NoEffect(COMPILED);
    liger_kernel_config: "null", NoEffect(COMPILED);
    use_cache: "false", NoEffect("training keeps no keys and values");
    torch_empty_cache_steps: "null", NoEffect("the compiler plans the memory of a step");
    full_determinism: "false", Always("runs are deterministic");
    use_cpu: "false", NoEffect("resources.platform selects the device");
};

const REPORTING: &[Argument] = arguments! {
    log_on_each_node: "true", NoEffect("a job has one log");
    logging_nan_inf_filter: "true", NoEffect("a loss that is not finite ends the job");
    log_level: "passive", NoEffect("a job has one log");
    log_level_replica: "warning", NoEffect("a job has one log");
    disable_tqdm: "null", NoEffect("a runner shows no bar; `traind watch` does");
    trackio_space_id: "null", NoEffect("nothing is reported to trackio");
    trackio_bucket_id: "null", NoEffect("nothing is reported to trackio");
    trackio_static_space_id: "null", NoEffect("nothing is reported to trackio");
    debug: "", NoEffect("events and metrics show where time goes");
    skip_memory_metrics: "true", NoEffect("`traind cores` shows the memory of each core");
};

const EVALUATION: &[Argument] = arguments! {
    eval_do_concat_batches: "true", NoEffect(BATCHED);
    eval_use_gather_object: "false", NoEffect(BATCHED);
    eval_accumulation_steps: "null", NoEffect(BATCHED);
    batch_eval_metrics: "false", Always(BATCHED);
    sortish_sampler: "false", Refused("use train_sampling_strategy: group_by_length");
    include_for_metrics: "[]", NoEffect("the task decides which metrics are computed");
};

const SAVING: &[Argument] = arguments! {
    save_on_each_node: "false", NoEffect("a job writes one output folder");
    enable_jit_checkpoint: "false", NoEffect("a job that is asked to leave saves a checkpoint");
    restore_callback_states_from_checkpoint: "false", NoEffect("checkpoints hold the state of early stopping");
};

const HUB: &[Argument] = arguments! {
    hub_token: "null", Refused("job files are visible to others; set HF_TOKEN in the daemon's environment");
};

const PREFETCHED: &str =
    "rows are prepared on all processors of the host and prefetched, in a fixed order";

/// The inputs of models that hold labels.
const LABELS: &[&str] = &["labels", "start_positions", "end_positions"];

const DATA: &[Argument] = arguments! {
    dataloader_num_workers: "0", NoEffect(PREFETCHED);
    dataloader_pin_memory: "true", NoEffect(PREFETCHED);
    dataloader_persistent_workers: "false", NoEffect(PREFETCHED);
    dataloader_prefetch_factor: "null", NoEffect(PREFETCHED);
    dataloader_multiprocessing_context: "null", NoEffect(PREFETCHED);
    dataloader_in_order: "true", NoEffect(PREFETCHED);
    remove_unused_columns: "true", NoEffect("columns without a use are not read");
    label_names: "null", Only(LABELS, "data.label and data.labels name the columns; leave it out");
    length_column_name: "length", NoEffect("rows are grouped by their counted tokens, which such a column would repeat");
};

const COLLECTIVES: &str = "cores exchange gradients inside the compiled step";

const DISTRIBUTION: &[Argument] = arguments! {
    accelerator_config: "null", NoEffect("per_device_train_batch_size is the number of rows per core");
    parallelism_config: "null", Refused("use the section parallel");
    ddp_find_unused_parameters: "null", NoEffect(COLLECTIVES);
    ddp_bucket_cap_mb: "null", NoEffect(COLLECTIVES);
    ddp_broadcast_buffers: "null", NoEffect(COLLECTIVES);
    ddp_static_graph: "null", NoEffect(COLLECTIVES);
    ddp_backend: "null", NoEffect(COLLECTIVES);
    ddp_timeout: "1800", NoEffect(COLLECTIVES);
    fsdp: "null", Refused("use full_shard, shard_grad_op, hybrid_shard or hybrid_shard_zero2, which are read as parallel.fsdp");
    fsdp_config: "null", Refused("give its content as a mapping, of which activation_checkpointing, offload_params and reshard_after_forward are read; each layer is gathered by itself");
    deepspeed: "null", Refused("give its content as a mapping, of which ZeRO stages, offload_optimizer, precision, clipping and batch sizes are read, or use parallel.fsdp and parallel.offload, and bf16 or fp16");
    local_rank: "-1", NoEffect("the runner starts one worker per core");
};

/// The arguments of transformers 4.
const FORMER: &[Argument] = arguments! {
    logging_dir: "null", NoEffect("TensorBoard events are in `runs` of the output folder");
    save_safetensors: "true", NoEffect("weights are saved as safetensors");
    no_cuda: "false", NoEffect("resources.platform selects the device");
    use_mps_device: "false", NoEffect("resources.platform selects the device");
    tpu_num_cores: "null", NoEffect("resources.cores is the number of cores");
    adafactor: "false", Refused("use optim: adafactor");
    fp16_backend: "auto", NoEffect(COMPILED);
    half_precision_backend: "auto", NoEffect(COMPILED);
    fp16_opt_level: "O1", NoEffect("weights stay in float32");
    jit_mode_eval: "false", NoEffect(COMPILED);
    use_ipex: "false", NoEffect(COMPILED);
    torchdynamo: "null", NoEffect(COMPILED);
    ray_scope: "last", NoEffect("hyperparameter search is not supported");
    mp_parameters: "", Refused("use the section parallel");
    include_inputs_for_metrics: "false", NoEffect("the task decides which metrics are computed");
    include_tokens_per_second: "false", NoEffect("events count tokens in any case");
    dispatch_batches: "null", NoEffect(PREFETCHED);
    split_batches: "null", NoEffect("per_device_train_batch_size is the number of rows per core");
    push_to_hub_model_id: "null", Refused("use hub_model_id");
    push_to_hub_organization: "null", Refused("use hub_model_id, which is ORG/NAME");
    push_to_hub_token: "null", Refused("job files are visible to others; set HF_TOKEN in the daemon's environment");
};

/// Optimizers of transformers that are refused, with what to use instead.
pub(crate) const OPTIMIZERS: &[(&[&str], &str)] = &[
    (
        &[
            "adamw_torch_4bit",
            "adamw_torch_8bit",
            "adamw_bnb_8bit",
            "adamw_8bit",
            "paged_adamw_8bit",
        ],
        "the optimizer's state is kept in float32; use adamw_torch, and parallel.fsdp or \
         parallel.offload: optimizer where memory is short",
    ),
    (&["lion_8bit", "paged_lion_8bit"], "the optimizer's state is kept in float32; use lion_32bit"),
    (&["rmsprop_bnb_8bit"], "the optimizer's state is kept in float32; use rmsprop"),
    (&["schedule_free_radam", "schedule_free_sgd"], "use schedule_free_adamw"),
    (
        &[
            "adamw_anyprecision",
            "ademamix",
            "ademamix_8bit",
            "paged_ademamix_32bit",
            "paged_ademamix_8bit",
            "grokadamw",
            "stable_adamw",
        ],
        "use adamw_torch, sgd or adafactor",
    ),
    (
        &[
            "galore_adamw",
            "galore_adamw_8bit",
            "galore_adafactor",
            "galore_adamw_layerwise",
            "galore_adamw_8bit_layerwise",
            "galore_adafactor_layerwise",
            "apollo_adamw",
            "apollo_adamw_layerwise",
            "lomo",
            "adalomo",
        ],
        "use adafactor, whose state is small",
    ),
];
