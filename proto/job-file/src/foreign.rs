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
const OF_LLAMA_FACTORY: [&str; 5] =
    ["cutoff_len", "dataset_dir", "lora_rank", "lora_target", "neat_packing"];

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
