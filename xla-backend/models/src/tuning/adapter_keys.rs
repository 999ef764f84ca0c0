//! The keys of `adapter_config.json`. A key that is not understood may change the computation, so it is refused.

use serde_json::Value;

use crate::config::ModelConfig;
use crate::error::Result;

/// Keys that settings are read from.
const READ: &[&str] = &[
    "bias",
    "ensure_weight_tying",
    "init_lora_weights",
    "layers_to_transform",
    "lora_alpha",
    "lora_dropout",
    "modules_to_save",
    "peft_type",
    "r",
    "target_modules",
    "trainable_token_indices",
    "use_dora",
    "use_rslora",
];

/// Keys without a part in the computation of loaded adapters: where they come from, how they were
/// initialized, and layouts that the model itself has.
const WITHOUT_EFFECT: &[&str] = &[
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "eva_config",
    "fan_in_fan_out",
    "inference_mode",
    "loftq_config",
    "lora_ga_config",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "task_type",
];

/// Keys of PEFT whose every other value than null, false or an empty one is refused.
const UNSUPPORTED: &[&str] = &[
    "alora_invocation_tokens",
    "alpha_pattern",
    "arrow_config",
    "enable_lora",
    "exclude_modules",
    "kasa_config",
    "layer_replication",
    "layers_pattern",
    "lora_bias",
    "megatron_config",
    "merge_weights",
    "monteclora_config",
    "rank_pattern",
    "target_parameters",
    "use_bdlora",
    "use_qalora",
    "velora_config",
];

/// Values of `init_lora_weights` that leave the base as it is. The others take a part of each adapted weight out of
/// the base, in PEFT also when adapters are loaded.
const KEEPING_THE_BASE: [&str; 3] = ["gaussian", "orthogonal", "eva"];

/// Refuses a config of other adapters than LoRA, and every key and value that traind does not compute by.
pub(super) fn check(config: &ModelConfig) -> Result<()> {
    let kind = config.keys().get("peft_type").and_then(Value::as_str);
    if kind != Some("LORA") {
        let found = kind.unwrap_or("none");
        return Err(config.error("peft_type", format!("only LORA is supported, found {found}")));
    }
    for (key, value) in config.keys() {
        let key = key.as_str();
        if UNSUPPORTED.contains(&key) && is_set(value) {
            let problem = format!(
                "{value} is not supported: train the model merged by PEFT's merge_and_unload"
            );
            return Err(config.error(key, problem));
        }
        if ![READ, WITHOUT_EFFECT, UNSUPPORTED].iter().any(|known| known.contains(&key)) {
            let problem = "not known here, and it may change what the adapters compute: remove it from the file \
                           if it does not";
            return Err(config.error(key, problem));
        }
    }
    check_initialization(config)
}

fn check_initialization(config: &ModelConfig) -> Result<()> {
    const KEY: &str = "init_lora_weights";
    let name = match config.keys().get(KEY) {
        None | Some(Value::Null | Value::Bool(_)) => return Ok(()),
        Some(Value::String(name)) => name.to_lowercase(),
        Some(other) => other.to_string(),
    };
    if KEEPING_THE_BASE.contains(&name.as_str()) {
        return Ok(());
    }
    let problem = format!(
        "{name} adapters belong to a changed base, which PEFT computes from the original one when it loads \
         them; in PEFT, save_pretrained(folder, path_initial_model_for_weight_conversion=...) writes them as \
         plain ones, and merge_and_unload() the whole model"
    );
    Err(config.error(KEY, problem))
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}
