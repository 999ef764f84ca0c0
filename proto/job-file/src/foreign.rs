//! Recognizes other tools' files, which are given where a job file belongs.

use crate::node::{Node, Value};

/// A tool whose settings are no job file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Accelerate,
    Axolotl,
    LlamaFactory,
    SageMaker,
    Torchtune,
    Trl,
}

/// Keys that other tools' files do not have.
const OF_AXOLOTL: [&str; 6] = [
    "sequence_len",
    "micro_batch_size",
    "num_epochs",
    "sample_packing",
    "val_set_size",
    "lora_target_linear",
];
/// Keys of the classes of TRL's configs, as their `to_json_string` writes them, without a model.
const OF_TRL: [&str; 12] = [
    "assistant_only_loss",
    "center_rewards_coefficient",
    "completion_only_loss",
    "dataset_num_proc",
    "dataset_text_field",
    "desirable_weight",
    "max_completion_length",
    "padding_free",
    "precompute_ref_log_probs",
    "simpo_gamma",
    "sync_ref_model",
    "truncation_mode",
];
const OF_LLAMA_FACTORY: [&str; 5] =
    ["cutoff_len", "dataset_dir", "lora_rank", "lora_target", "neat_packing"];

/// The characters that a sentence on a text shows of it.
const TEXT_SHOWN: usize = 60;

/// The tool that writes such top-level keys. `has_components` is true where one of them is a mapping with
/// the key `_component_`.
pub fn tool_of(has: impl Fn(&str) -> bool, has_components: bool) -> Option<Tool> {
    let any = |keys: &[&str]| keys.iter().any(|key| has(key));
    // The telling key may be misspelled.
    let several = |keys: &[&str]| keys.iter().filter(|key| has(key)).count() > 1;
    Some(match () {
        () if has_components => Tool::Torchtune,
        () if any(&["compute_environment", "distributed_type"]) => Tool::Accelerate,
        () if has("base_model") || several(&OF_AXOLOTL) => Tool::Axolotl,
        () if any(&["finetuning_type", "stage", "template"]) || several(&OF_LLAMA_FACTORY) => {
            Tool::LlamaFactory
        }
        () if any(&["hyperparameters", "HyperParameters"]) => Tool::SageMaker,
        () if has("model_name_or_path")
            && any(&[
                "dataset_name",
                "datasets",
                "dataset_train_split",
                "dataset_mixer",
                "dataset_mixture",
                "use_peft",
            ]) =>
        {
            Tool::Trl
        }
        () if several(&OF_TRL) => Tool::Trl,
        () => return None,
    })
}

impl Tool {
    /// A sentence that says whose file it is, and what to do with it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Accelerate => {
                "is accelerate's config file, which has no model and no data: convert the command line \
                 that uses it, by `traind convert -- accelerate launch --config_file FILE run_glue.py …`, \
                 or set resources.cores (num_processes), train.bf16 (mixed_precision) and parallel.fsdp"
            }
            Self::Axolotl => {
                "is axolotl's file; `traind convert FILE --output job.yaml` makes a job file of it"
            }
            Self::LlamaFactory => {
                "is LLaMA-Factory's file; `traind convert FILE --output job.yaml` makes a job file of it"
            }
            Self::SageMaker => {
                "has SageMaker's hyperparameters; `traind convert FILE --output job.yaml` makes a job file \
                 of them"
            }
            Self::Torchtune => {
                "is torchtune's config, whose components are Python and are not converted; begin with \
                 `traind init MODEL DATA`, and put optimizer.lr, batch_size and epochs \
                 into train.learning_rate, train.per_device_train_batch_size and train.num_train_epochs"
            }
            Self::Trl => {
                "is a config of TRL's scripts; `traind convert FILE --output job.yaml` makes a job file of it"
            }
        }
    }
}

/// The tool whose file a document is, unless it has a job's section `model`.
pub(crate) fn tool_of_document(root: &Node) -> Option<Tool> {
    let Value::Map(entries) = &root.value else { return None };
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    let is_component = |node: &Node| match &node.value {
        Value::Map(entries) => entries.iter().any(|entry| entry.key == "_component_"),
        _ => false,
    };
    let has_components = entries.iter().any(|entry| is_component(&entry.node));
    let is_job = has("model") && !has_components;
    if is_job { None } else { tool_of(has, has_components) }
}

/// A sentence on a document that is no tool's settings and no job file: a model's config, or TrainingArguments as
/// `to_json_string` writes them.
pub(crate) fn advice_on_document(root: &Node) -> Option<&'static str> {
    let Value::Map(entries) = &root.value else { return None };
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    Some(match () {
        () if has("model") || has("data") => return None,
        () if has("model_type") && (has("architectures") || has("hidden_size")) => {
            "is a model's config.json; name its folder in model.name_or_path, or begin with `traind init MODEL DATA`"
        }
        () if has("output_dir") && (has("log_level_replica") || has("_n_gpu")) => {
            "has TrainingArguments; `traind convert FILE --output job.yaml`, with the model and the data by --set, \
             makes a job file of them"
        }
        () => return None,
    })
}

/// A sentence on a document that is text without keys, such as a script or rows of data.
pub(crate) fn advice_on_text(text: &str) -> String {
    let beginning: String = text.chars().take(TEXT_SHOWN).collect();
    let more = if beginning.len() < text.len() { "…" } else { "" };
    let of_script = match text.contains(" --") {
        true => "; `traind convert FILE --output job.yaml` makes a job file of a script's command",
        false => "",
    };
    format!("must be a mapping of keys to values, not the text `{beginning}{more}`{of_script}")
}
