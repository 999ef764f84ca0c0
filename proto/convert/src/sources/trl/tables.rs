//! The keys of TRL's scripts and configs.

use crate::rule::{Rule, Table};

const PREPARED: &str = "rows are prepared once, on all processors of the host";
const QUANTIZED: &str =
    "weights are not quantized; leave it out, and set model.dtype: bfloat16 for frozen weights";
const OF_QUANTIZATION: &str = "applies to quantization alone";
const OF_EXPERTS: &str = "applies to models with experts alone";
const LENGTHS: &str = "rows are cut by max_length alone, as in TRL 1; leave it out";

const PRECOMPUTED: &str = "the reference's log probabilities are the same";
const SYNCHRONIZED: &str = "the reference stays as it is; leave it out";
const OF_SYNCHRONIZED: &str = "applies to sync_ref_model alone";
const OF_ENCODER_DECODERS: &str = "applies to encoder-decoders alone";
const PADDING: &str = "padding is masked, and has no loss";
const GENERATION: &str = "`traind generate` writes texts at any time";
const COLUMNS: &str = "columns without a use are not read";

/// The scripts' arguments and those of the model.
pub(super) const SHARED: Table = &[
    ("model_name_or_path", Rule::Field("model.name_or_path")),
    ("model_revision", Rule::Own),
    ("dtype", Rule::Own),
    ("torch_dtype", Rule::Own),
    ("attn_implementation", Rule::Dropped("attention is part of the compiled step")),
    ("trust_remote_code", Rule::Dropped("no code of models is run")),
    (
        "model_init_kwargs",
        Rule::Refused("put what it has into section model, such as config_overrides"),
    ),
    ("use_peft", Rule::Own),
    ("lora_r", Rule::Own),
    ("lora_alpha", Rule::Own),
    ("lora_dropout", Rule::Own),
    ("lora_target_modules", Rule::Own),
    (
        "lora_target_parameters",
        Rule::Refused("adapters are of modules; name them in lora_target_modules"),
    ),
    ("lora_modules_to_save", Rule::Own),
    ("lora_task_type", Rule::Dropped("the task says it")),
    ("use_rslora", Rule::Own),
    ("use_dora", Rule::Own),
    ("load_in_8bit", Rule::Refused(QUANTIZED)),
    ("load_in_4bit", Rule::Refused(QUANTIZED)),
    ("bnb_4bit_quant_type", Rule::Dropped(OF_QUANTIZATION)),
    ("bnb_4bit_quant_storage", Rule::Dropped(OF_QUANTIZATION)),
    ("use_bnb_nested_quant", Rule::Dropped(OF_QUANTIZATION)),
    ("dataset_name", Rule::Own),
    ("dataset_config", Rule::Field("data.dataset_config_name")),
    ("dataset_train_split", Rule::Own),
    ("dataset_test_split", Rule::Own),
    ("dataset_streaming", Rule::Dropped(PREPARED)),
    ("dataset_num_proc", Rule::Dropped(PREPARED)),
    ("datasets", Rule::Own),
    ("test_split_size", Rule::Own),
    ("dataset_mixture", Rule::Own),
    ("dataset_mixer", Rule::Own),
    ("dataset_splits", Rule::Own),
    ("dataset_configs", Rule::Own),
    ("ignore_bias_buffers", Rule::Dropped("the cores share no buffers")),
    ("config", Rule::Own),
    ("do_train", Rule::Own),
    ("do_eval", Rule::Own),
    ("do_predict", Rule::Own),
    ("env", Rule::Dropped("variables belong into the daemon's environment")),
    ("num_processes", Rule::Field("resources.cores")),
    (
        "accelerate_config",
        Rule::Refused("give cores by --num_processes, and parallel.fsdp by --set"),
    ),
    ("max_length", Rule::Own),
    ("truncation_mode", Rule::Own),
    ("padding_free", Rule::Dropped("the losses are the same with padding")),
    ("pad_to_multiple_of", Rule::Own),
    ("remove_unused_columns", Rule::Dropped(COLUMNS)),
    ("pad_token", Rule::Field("model.add_special_tokens.pad_token")),
    ("router_aux_loss_coef", Rule::Dropped(OF_EXPERTS)),
    (
        "activation_offloading",
        Rule::Dropped(
            "the losses are the same; where memory is short, set parallel.offload: [activations]",
        ),
    ),
];

const SFT: Table = &[
    ("chat_template_path", Rule::Field("data.chat_template")),
    ("dataset_text_field", Rule::Field("data.text")),
    ("dataset_kwargs", Rule::Refused("rows are recognized by their columns; leave it out")),
    ("eos_token", Rule::Field("data.eos_token")),
    ("shuffle_dataset", Rule::Dropped("rows are shuffled in each epoch")),
    ("packing", Rule::Field("data.packing")),
    ("packing_strategy", Rule::Field("data.packing_strategy")),
    ("eval_packing", Rule::Field("data.eval_packing")),
    ("completion_only_loss", Rule::Field("data.completion_only_loss")),
    ("assistant_only_loss", Rule::Field("data.assistant_only_loss")),
    ("loss_type", Rule::Own),
];

const DPO: Table = &[
    ("beta", Rule::Field("dpo.beta")),
    ("loss_type", Rule::Field("dpo.loss_type")),
    ("loss_weights", Rule::Field("dpo.loss_weights")),
    ("ld_alpha", Rule::Field("dpo.ld_alpha")),
    ("f_divergence_type", Rule::Field("dpo.f_divergence_type")),
    ("f_alpha_divergence_coef", Rule::Field("dpo.f_alpha_divergence_coef")),
    ("label_smoothing", Rule::Field("dpo.label_smoothing")),
    ("use_weighting", Rule::Field("dpo.use_weighting")),
    ("discopop_tau", Rule::Field("dpo.discopop_tau")),
    ("disable_dropout", Rule::Field("dpo.disable_dropout")),
];

const REWARD: Table = &[
    ("chat_template_path", Rule::Field("data.chat_template")),
    ("eos_token", Rule::Field("data.eos_token")),
    ("center_rewards_coefficient", Rule::Field("reward.center_rewards_coefficient")),
    ("disable_dropout", Rule::Field("reward.disable_dropout")),
];

const KTO: Table = &[
    ("beta", Rule::Field("kto.beta")),
    ("loss_type", Rule::Field("kto.loss_type")),
    ("desirable_weight", Rule::Field("kto.desirable_weight")),
    ("undesirable_weight", Rule::Field("kto.undesirable_weight")),
    ("disable_dropout", Rule::Field("kto.disable_dropout")),
];

const ORPO: Table =
    &[("beta", Rule::Field("orpo.beta")), ("disable_dropout", Rule::Field("orpo.disable_dropout"))];

const CPO: Table = &[
    ("beta", Rule::Field("cpo.beta")),
    ("loss_type", Rule::Field("cpo.loss_type")),
    ("alpha", Rule::Field("cpo.alpha")),
    ("label_smoothing", Rule::Own),
    ("cpo_alpha", Rule::Own),
    ("simpo_gamma", Rule::Own),
    ("disable_dropout", Rule::Field("cpo.disable_dropout")),
];

/// Keys of `dpo` and `kto`, whose losses compare the model with a reference.
const REFERENCE: Table = &[
    ("precompute_ref_log_probs", Rule::Dropped(PRECOMPUTED)),
    ("precompute_ref_batch_size", Rule::Dropped(PRECOMPUTED)),
    ("sync_ref_model", Rule::Refused(SYNCHRONIZED)),
    ("ref_model_mixup_alpha", Rule::Dropped(OF_SYNCHRONIZED)),
    ("ref_model_sync_steps", Rule::Dropped(OF_SYNCHRONIZED)),
    ("max_prompt_length", Rule::Refused(LENGTHS)),
    ("max_completion_length", Rule::Refused(LENGTHS)),
];

/// Keys of `orpo` and `cpo`, which also train encoder-decoders in TRL.
const SEQUENCES: Table = &[
    ("max_prompt_length", Rule::Refused(LENGTHS)),
    ("max_completion_length", Rule::Dropped(OF_ENCODER_DECODERS)),
    ("is_encoder_decoder", Rule::Dropped(OF_ENCODER_DECODERS)),
    ("padding_value", Rule::Dropped(PADDING)),
    ("label_pad_token_id", Rule::Dropped(PADDING)),
    ("generate_during_eval", Rule::Dropped(GENERATION)),
];

/// A script of TRL's.
pub(crate) struct Script {
    /// Its name, which is also the task's.
    pub(crate) name: &'static str,
    /// Its name in the first line of a job file.
    pub(crate) title: &'static str,
    /// The keys that not all scripts have.
    pub(super) own: &'static [Table],
    /// Values of `loss_type`; none where there is no choice.
    pub(super) losses: &'static [&'static str],
    /// The default learning rate.
    pub(super) learning_rate: f64,
}

pub(super) const SCRIPTS: [Script; 6] = [
    Script {
        name: "sft",
        title: "TRL's sft",
        own: &[SFT],
        losses: &["nll", "chunked_nll", "dft"],
        learning_rate: 2e-5,
    },
    Script {
        name: "dpo",
        title: "TRL's dpo",
        own: &[DPO, REFERENCE],
        losses: LOSSES_OF_DPO,
        learning_rate: 1e-6,
    },
    Script {
        name: "reward",
        title: "TRL's reward",
        own: &[REWARD],
        losses: &[],
        learning_rate: 1e-4,
    },
    Script {
        name: "kto",
        title: "TRL's kto",
        own: &[KTO, REFERENCE],
        losses: &["kto", "apo_zero_unpaired"],
        learning_rate: 1e-6,
    },
    Script {
        name: "orpo",
        title: "TRL's orpo",
        own: &[ORPO, SEQUENCES],
        losses: &[],
        learning_rate: 1e-6,
    },
    Script {
        name: "cpo",
        title: "TRL's cpo",
        own: &[CPO, SEQUENCES],
        losses: LOSSES_OF_CPO,
        learning_rate: 1e-6,
    },
];
const LOSSES_OF_DPO: &[&str] = &[
    "sigmoid",
    "hinge",
    "ipo",
    "exo_pair",
    "nca_pair",
    "robust",
    "bco_pair",
    "sppo_hard",
    "aot",
    "aot_unpaired",
    "aot_pair",
    "apo_zero",
    "apo_down",
    "discopop",
    "sft",
    "sigmoid_norm",
];
const LOSSES_OF_CPO: &[&str] = &["sigmoid", "hinge", "ipo", "simpo", "alphapo"];

impl Script {
    /// Returns true for a key that not all scripts have, and this one has.
    pub(super) fn owns(&self, key: &str) -> bool {
        self.own.iter().copied().flatten().any(|(name, _)| *name == key)
    }
}

/// Returns true if a key belongs to some scripts, and not to all of them.
pub(super) fn is_special(key: &str) -> bool {
    SCRIPTS.iter().any(|script| script.owns(key))
}
