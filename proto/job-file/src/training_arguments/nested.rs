//! Keys inside the mappings `deepspeed` and `fsdp_config`, of which the job file reads a few. A key that
//! is close to a known one is a misspelling of it; others have no effect, since versions add keys.

use serde_json::Value;

use crate::section::nearest_key;

type Names = &'static [&'static str];

const DEEPSPEED: Names = &[
    "activation_checkpointing",
    "aio",
    "allgather_size",
    "amp",
    "autotuning",
    "bf16",
    "bfloat16",
    "checkpoint",
    "comet",
    "comms_logger",
    "communication_data_type",
    "compile",
    "compression_training",
    "csv_monitor",
    "curriculum_learning",
    "data_efficiency",
    "data_parallel_size",
    "data_types",
    "dataloader_drop_last",
    "disable_allgather",
    "dump_state",
    "eigenvalue",
    "elasticity",
    "flops_profiler",
    "fp16",
    "fp32_allreduce",
    "gradient_accumulation_steps",
    "gradient_clipping",
    "gradient_predivide_factor",
    "graph_harvesting",
    "hybrid_engine",
    "memory_breakdown",
    "monitor_config",
    "nebula",
    "optimizer",
    "pipeline",
    "prescale_gradients",
    "progressive_layer_drop",
    "quantize_training",
    "scheduler",
    "seq_parallel_communication_data_type",
    "sequence_parallel_size",
    "sparse_attention",
    "sparse_gradients",
    "steps_per_print",
    "tensor_parallel",
    "tensorboard",
    "timers",
    "torch_autocast",
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "use_data_before_expert_parallelism",
    "use_node_local_storage",
    "vocabulary_size",
    "wall_clock_breakdown",
    "wandb",
    "weight_quantization",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
    "zero_optimization",
];

pub(super) const ZERO: Names = &[
    "allgather_bucket_size",
    "allgather_partitions",
    "contiguous_gradients",
    "cpu_offload",
    "cpu_offload_param",
    "cpu_offload_params",
    "cpu_offload_use_pin_memory",
    "elastic_checkpoint",
    "gather_16bit_weights_on_model_save",
    "gather_fp16_weights_on_model_save",
    "grad_partitioned",
    "ignore_unused_parameters",
    "leaf_module",
    "legacy_stage1",
    "load_from_fp32_weights",
    "log_trace_cache_warnings",
    "max_live_parameters",
    "max_reuse_distance",
    "memory_efficient_linear",
    "mics_hierarchical_params_gather",
    "mics_shard_size",
    "model_persistence_threshold",
    "module_granularity_threshold",
    "offload_optimizer",
    "offload_param",
    "overlap_comm",
    "override_module_apply",
    "param_persistence_threshold",
    "pipeline_loading_checkpoint",
    "prefetch_bucket_size",
    "reduce_bucket_size",
    "reduce_scatter",
    "round_robin_gradients",
    "save_muon_momentum_buffer_in_memory",
    "stage",
    "stage3_allgather_sequential",
    "stage3_gather_16bit_weights_on_model_save",
    "stage3_gather_fp16_weights_on_model_save",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "stage3_model_persistence_threshold",
    "stage3_module_granularity_threshold",
    "stage3_param_persistence_threshold",
    "stage3_prefetch_bucket_size",
    "stage3_use_all_reduce_for_fetch_params",
    "sub_group_size",
    "use_all_reduce_for_fetch_params",
    "use_multi_rank_bucket_allreduce",
    "zenflow",
    "zero_hpz_partition_size",
    "zero_quantized_gradients",
    "zero_quantized_nontrainable_weights",
    "zero_quantized_weights",
    "zeropp_loco_param",
];

const OFFLOAD: Names = &[
    "buffer_count",
    "buffer_size",
    "cpuadam_cores_perc",
    "device",
    "fast_init",
    "max_in_cpu",
    "nvme_path",
    "pin_memory",
    "pipeline",
    "pipeline_read",
    "pipeline_write",
    "ratio",
    "super_offload",
];

const PRECISION: Names = &[
    "auto_cast",
    "bf16_master_weights_and_grads",
    "bf16_optimizer_states",
    "check_grad_overflow",
    "consecutive_hysteresis",
    "ddp_bfloat16",
    "enabled",
    "fp16_master_weights_and_grads",
    "hysteresis",
    "immediate_grad_update",
    "initial_scale_power",
    "loss_scale",
    "loss_scale_window",
    "min_loss_scale",
    "opt_level",
];

/// Keys of `fsdp_config`, which may begin with `fsdp_`.
const FSDP: Names = &[
    "activation_checkpointing",
    "activation_checkpointing_offload",
    "auto_wrap_policy",
    "backward_prefetch",
    "backward_prefetch_policy",
    "cpu_offload",
    "cpu_ram_efficient_loading",
    "final_state_dict_type",
    "forward_prefetch",
    "limit_all_gathers",
    "min_num_params",
    "mixed_precision",
    "mixed_precision_policy",
    "offload",
    "offload_params",
    "reshard_after_forward",
    "sharding_strategy",
    "state_dict_type",
    "sync_module_states",
    "transformer_layer_cls_to_wrap",
    "use_orig_params",
    "version",
    "wrapping_policy",
    "xla",
    "xla_fsdp_grad_ckpt",
    "xla_fsdp_settings",
    "xla_fsdp_v2",
];

/// The least similarity of a misspelled word, from 0 to 1.
const SIMILARITY_MIN: f64 = 0.7;

/// A misspelled key or value of a mapping, with its path from the mapping's name on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misspelling {
    /// The path, such as `deepspeed.zero_optimization.stage`.
    pub path: String,
    /// The problem, behind the path.
    pub problem: String,
}

/// Finds misspelled keys and values in the mapping `value` of the argument `deepspeed` or `fsdp_config`.
pub fn misspellings(argument: &str, value: &Value) -> Vec<Misspelling> {
    let mut found = Found::default();
    if argument == "fsdp_config" {
        found.check_keys(argument, value, FSDP);
        return found.0;
    }
    found.check_keys(argument, value, DEEPSPEED);
    for (name, value) in entries(value) {
        let key = format!("{argument}.{name}");
        match name.as_str() {
            "zero_optimization" => found.check_zero(&key, value),
            "bf16" | "bfloat16" | "fp16" => found.check_precision(&key, value),
            _ => {}
        }
    }
    found.0
}

/// The word that a misspelled truth value probably is: `yess`, `flase`.
pub fn misspelled_flag(value: &Value) -> Option<&'static str> {
    const WORDS: [&str; 4] = ["true", "false", "yes", "none"];
    let word = value.as_str()?.to_lowercase();
    let nearest = nearest_key(&word, WORDS.into_iter(), SIMILARITY_MIN)?;
    (nearest != word).then_some(nearest)
}

#[derive(Default)]
struct Found(Vec<Misspelling>);

impl Found {
    fn add(&mut self, path: &str, problem: String) {
        self.0.push(Misspelling { path: path.to_owned(), problem });
    }

    fn check_zero(&mut self, key: &str, value: &Value) {
        if !self.is_mapping(key, value, "{stage: 2}") {
            return;
        }
        self.check_keys(key, value, ZERO);
        let stage = value.get("stage").filter(|stage| stage.as_u64().is_none_or(|it| it > 3));
        if let Some(stage) = stage {
            let problem = format!("must be 0, 1, 2 or 3, not {}", shown(stage));
            self.add(&format!("{key}.stage"), problem);
        }
        for part in ["offload_optimizer", "offload_param"] {
            let key = format!("{key}.{part}");
            let Some(value) = value.get(part) else { continue };
            self.check_keys(&key, value, OFFLOAD);
            let device =
                value.get("device").filter(|it| *it != "cpu" && *it != "nvme" && *it != "none");
            if let Some(device) = device.filter(|it| !it.is_null() && *it != "auto") {
                let problem = format!("must be cpu, nvme or none, not {}", shown(device));
                self.add(&format!("{key}.device"), problem);
            }
        }
    }

    fn check_precision(&mut self, key: &str, value: &Value) {
        if !self.is_mapping(key, value, "{enabled: true}") {
            return;
        }
        self.check_keys(key, value, PRECISION);
        let given = value.get("enabled");
        let Some(enabled) = given.filter(|it| !it.is_boolean() && !it.is_null() && *it != "auto")
        else {
            return;
        };
        let problem = match misspelled_flag(enabled) {
            Some(word) => format!("is {}; did you mean `{word}`?", shown(enabled)),
            None => format!("must be true, false or auto, not {}", shown(enabled)),
        };
        self.add(&format!("{key}.enabled"), problem);
    }

    /// Returns whether a value has keys to check; others than `auto` are refused, with an example.
    fn is_mapping(&mut self, key: &str, value: &Value, example: &str) -> bool {
        if !value.is_object() && value != "auto" {
            self.add(key, format!("must be a mapping such as {example}, not {}", shown(value)));
        }
        value.is_object()
    }

    /// Refuses the keys of a mapping that are close to a known one.
    fn check_keys(&mut self, within: &str, value: &Value, known: Names) {
        for (name, _) in entries(value) {
            let bare = name.strip_prefix("fsdp_").unwrap_or(name);
            if known.contains(&name.as_str()) || known.contains(&bare) {
                continue;
            }
            if let Some(nearest) = nearest_key(bare, known.iter().copied(), SIMILARITY_MIN) {
                let prefix = name.strip_suffix(bare).unwrap_or_default();
                let problem = format!("is not known here; did you mean `{prefix}{nearest}`?");
                self.add(&format!("{within}.{name}"), problem);
            }
        }
    }
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// A value as a message shows it.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
