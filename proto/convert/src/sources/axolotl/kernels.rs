//! axolotl's keys about kernels and the way work is done, which do not change what is computed.

use crate::rule::{Rule, Table};

const COMPILED: &str = "every step is one compiled program";
const CLASS: &str = "the files of the model say it";
const EXPERTS: &str = "mixtures of experts are not among the model families; name a dense model of docs/models.md, and \
    leave it out";
const TRACKER: &str = "metrics go to TensorBoard's files, or to what train.report_to names";

pub(super) const TABLE: Table = &[
    ("liger_rope", Rule::Dropped(COMPILED)),
    ("liger_rms_norm", Rule::Dropped(COMPILED)),
    ("liger_rms_norm_gated", Rule::Dropped(COMPILED)),
    ("liger_layer_norm", Rule::Dropped(COMPILED)),
    ("liger_glu_activation", Rule::Dropped(COMPILED)),
    ("liger_swiglu", Rule::Dropped(COMPILED)),
    ("liger_cross_entropy", Rule::Dropped(COMPILED)),
    ("liger_fused_linear_cross_entropy", Rule::Dropped(COMPILED)),
    ("cut_cross_entropy", Rule::Dropped(COMPILED)),
    ("use_kernels", Rule::Dropped(COMPILED)),
    ("lora_mlp_kernel", Rule::Dropped(COMPILED)),
    ("lora_qkv_kernel", Rule::Dropped(COMPILED)),
    ("lora_o_kernel", Rule::Dropped(COMPILED)),
    ("fused_attn_kernel", Rule::Dropped(COMPILED)),
    ("tiled_mlp", Rule::Dropped(COMPILED)),
    ("flash_optimum", Rule::Dropped(COMPILED)),
    ("flex_attention", Rule::Dropped(COMPILED)),
    ("flex_attn_compile_kwargs", Rule::Dropped(COMPILED)),
    ("experimental_skip_move_to_device", Rule::Dropped("weights are read where they are used")),
    ("activation_offloading", Rule::Dropped("the compiler plans the memory of a step")),
    ("low_cpu_mem_usage", Rule::Dropped("weights are read where they are used")),
    ("device_map", Rule::Dropped("the mesh says where weights are")),
    ("tokenizer_use_fast", Rule::Dropped(CLASS)),
    ("tokenizer_legacy", Rule::Dropped(CLASS)),
    ("base_model_ignore_patterns", Rule::Dropped("only the files of the model are fetched")),
    ("hf_use_auth_token", Rule::Dropped("set HF_TOKEN in the daemon's environment")),
    ("trust_remote_code", Rule::Dropped("no code of models is run")),
    ("use_swanlab", Rule::Dropped(TRACKER)),
    ("swanlab_project", Rule::Dropped(TRACKER)),
    ("swanlab_experiment_name", Rule::Dropped(TRACKER)),
    ("swanlab_description", Rule::Dropped(TRACKER)),
    ("swanlab_mode", Rule::Dropped(TRACKER)),
    ("swanlab_log_completions", Rule::Dropped(TRACKER)),
    ("min_sample_len", Rule::Dropped("rows without a target are left out")),
    ("adam_eps", Rule::Field("train.adam_epsilon")),
    ("loss_watchdog_threshold", Rule::Dropped(WATCHDOG)),
    ("loss_watchdog_patience", Rule::Dropped(WATCHDOG)),
    ("noisy_embedding_alpha", Rule::Field("train.neftune_noise_alpha")),
    ("ddp", Rule::Dropped("jobs are data-parallel over their cores")),
    ("lora_on_cpu", Rule::Dropped("weights are read where they are used")),
    ("use_comet", Rule::Dropped(TRACKER)),
    ("comet_project_name", Rule::Dropped(TRACKER)),
    ("use_trackio", Rule::Dropped(TRACKER)),
    ("save_first_step", Rule::Refused("set save_steps, whose first checkpoint shows as much")),
    ("dpo_beta", Rule::Refused("axolotl calls it rl_beta now; rename it")),
    (
        "process_reward_model",
        Rule::Refused("rewards are of whole texts: use reward_model: true with pairs"),
    ),
    (
        "pretraining_dataset",
        Rule::Refused("give the texts as datasets, with type: completion, and leave it out"),
    ),
    (
        "unfrozen_parameters",
        Rule::Refused("name what stays as it is in train.freeze by --set, and leave it out"),
    ),
    (
        "dataset_exact_deduplication",
        Rule::Refused("rows are read as they are; remove copies from the files, and leave it out"),
    ),
    ("expert_parallel_size", Rule::Refused(EXPERTS)),
    ("use_scattermoe", Rule::Refused(EXPERTS)),
    ("use_sonicmoe", Rule::Refused(EXPERTS)),
    ("experts_implementation", Rule::Refused(EXPERTS)),
];
const WATCHDOG: &str = "a run does not end because its loss is large; train.early_stopping_patience \
    ends it when evaluations get no better";
