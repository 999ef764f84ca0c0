//! Configs and command lines of TRL's scripts `sft` and `dpo`.

use serde_json::{Map, Value, json};

use crate::application::apply;
use crate::draft::Draft;
use crate::rule::{Rule, Table};
use crate::sources::adapters::{self, Keys, Kind};
use crate::values::{is_off, shown};

const PREPARED: &str = "rows are prepared once, on all processors of the host";
const QUANTIZED: &str =
    "weights are not quantized; leave it out, and set model.dtype: bfloat16 for frozen weights";
const OF_QUANTIZATION: &str = "applies to quantization alone";
const OF_EXPERTS: &str = "applies to models with experts alone";
const LENGTHS: &str = "rows are cut by max_length alone, as in TRL 1; leave it out";

const ADAPTERS: Keys = &[
    ("lora_r", "r", Kind::Same),
    ("lora_alpha", "lora_alpha", Kind::Same),
    ("lora_dropout", "lora_dropout", Kind::Same),
    ("lora_target_modules", "target_modules", Kind::Names),
    ("lora_modules_to_save", "modules_to_save", Kind::Names),
    ("use_rslora", "use_rslora", Kind::Same),
    ("use_dora", "use_dora", Kind::Same),
];

/// The scripts' arguments and those of the model.
const SHARED: Table = &[
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
    (
        "datasets",
        Rule::Refused("give the sets by --set data.train='[{path: ORG/NAME, split: train}, …]'"),
    ),
    ("ignore_bias_buffers", Rule::Dropped("the cores share no buffers")),
    ("config", Rule::Own),
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
    ("precompute_ref_log_probs", Rule::Dropped("the reference's log probabilities are the same")),
    ("precompute_ref_batch_size", Rule::Dropped("the reference's log probabilities are the same")),
    ("sync_ref_model", Rule::Refused("the reference stays as it is; leave it out")),
    ("ref_model_mixup_alpha", Rule::Dropped("applies to sync_ref_model alone")),
    ("ref_model_sync_steps", Rule::Dropped("applies to sync_ref_model alone")),
    ("max_prompt_length", Rule::Refused(LENGTHS)),
    ("max_completion_length", Rule::Refused(LENGTHS)),
];

/// Keys that only one of the two scripts has.
const OF_SFT: [&str; 8] = [
    "packing",
    "packing_strategy",
    "eval_packing",
    "assistant_only_loss",
    "completion_only_loss",
    "dataset_text_field",
    "chat_template_path",
    "eos_token",
];
const OF_DPO: [&str; 8] = [
    "beta",
    "ld_alpha",
    "loss_weights",
    "f_divergence_type",
    "precompute_ref_log_probs",
    "sync_ref_model",
    "use_weighting",
    "label_smoothing",
];
/// Losses of `sft`; the others are of `dpo`.
const LOSSES_OF_SFT: [&str; 3] = ["nll", "chunked_nll", "dft"];

/// The default of `max_length`.
const LENGTH: u32 = 1024;

/// Reads the settings of a script; `script` is its name, where a command line says it.
pub(crate) fn read(script: Option<&str>, settings: &Map<String, Value>, draft: &mut Draft) {
    let given = draft.get("model.task").and_then(Value::as_str).map(str::to_owned);
    let task = script.map(str::to_owned).or(given).or_else(|| suggested(settings));
    let Some(task) = task else {
        return draft.refuse(
            "",
            "does not say whether TRL's sft or dpo reads it: give it by --set model.task=sft or --set model.task=dpo; \
             if an example script of transformers reads it, convert the command line"
        );
    };
    draft.imply("model.task", task.as_str());
    let own = if task == "dpo" { DPO } else { SFT };
    for (key, value) in settings {
        apply(&[SHARED, own], key, value, draft);
    }
    let trains_adapters = settings.get("use_peft").is_some_and(|value| !is_off(value));
    adapters::read(ADAPTERS, trains_adapters, settings, draft);
    weights(settings, trains_adapters, draft);
    data(settings, draft);
    lengths(settings, draft);
    if task == "sft" {
        loss(settings, draft);
    }
    defaults(&task, trains_adapters, settings, draft);
}

/// The script that the keys are of.
fn suggested(settings: &Map<String, Value>) -> Option<String> {
    let has = |keys: &[&str]| keys.iter().any(|key| settings.contains_key(*key));
    let loss = settings.get("loss_type").map(shown);
    let is_sft = loss.as_deref().map(|loss| LOSSES_OF_SFT.contains(&loss));
    match (has(&OF_SFT) || is_sft == Some(true), has(&OF_DPO) || is_sft == Some(false)) {
        (true, false) => Some("sft".to_owned()),
        (false, true) => Some("dpo".to_owned()),
        _ => None,
    }
}

/// The revision, and the type of weights.
fn weights(settings: &Map<String, Value>, trains_adapters: bool, draft: &mut Draft) {
    if let Some(revision) = settings.get("model_revision").filter(|name| *name != "main") {
        draft.set("model.revision", revision.clone(), "model_revision");
    }
    let stated =
        ["dtype", "torch_dtype"].into_iter().find_map(|key| Some((key, settings.get(key)?)));
    let Some((key, dtype)) = stated.filter(|(_, dtype)| !is_off(dtype)) else { return };
    match (shown(dtype).as_str(), trains_adapters) {
        ("float32", _) => {}
        ("bfloat16", true) => draft.set("model.dtype", "bfloat16".into(), key),
        (name, _) => draft.note(
            key,
            format!("dropped: trained weights are float32, not {name}; bf16 computes in bfloat16"),
        ),
    }
}

/// The data set, and its split to evaluate on where there are evaluations.
fn data(settings: &Map<String, Value>, draft: &mut Draft) {
    let Some(name) = settings.get("dataset_name").filter(|name| !is_off(name)) else { return };
    let split = |key: &str, usual: &str| settings.get(key).map_or(usual.to_owned(), shown);
    let train = split("dataset_train_split", "train");
    let of_split = |split: &str| json!([{"path": name, "split": split}]);
    let train = if train == "train" { name.clone() } else { of_split(&train) };
    draft.set("data.train", train, "dataset_name");
    let evaluates = settings.get("eval_strategy").is_some_and(|value| !is_off(value));
    if evaluates && draft.get("data.validation_split").is_none() {
        let test = split("dataset_test_split", "test");
        draft.set("data.validation", of_split(&test), "dataset_test_split");
    }
}

fn lengths(settings: &Map<String, Value>, draft: &mut Draft) {
    match settings.get("max_length") {
        Some(Value::Null) => {
            draft.note("max_length", "null: rows are cut to the model's positions")
        }
        Some(length) => draft.set("data.max_length", length.clone(), "max_length"),
        None => draft.imply("data.max_length", LENGTH),
    }
    if settings.get("truncation_mode").is_some_and(|mode| mode != "keep_start") {
        draft.refuse("truncation_mode", "rows lose their ends; leave it out");
    }
    if let Some(multiple) = settings.get("pad_to_multiple_of").filter(|value| value.is_number()) {
        draft.set("data.pad_to_multiple_of", multiple.clone(), "pad_to_multiple_of");
    }
}

fn loss(settings: &Map<String, Value>, draft: &mut Draft) {
    if settings.get("loss_type").is_some_and(|loss| loss == "dft") {
        draft.refuse(
            "loss_type",
            "the loss is the cross entropy of all targets alike; leave it out",
        );
    }
}

/// Defaults of TRL that are not those of TrainingArguments.
fn defaults(task: &str, trains_adapters: bool, settings: &Map<String, Value>, draft: &mut Draft) {
    let is_on = |key: &str| settings.get(key).is_some_and(|value| !is_off(value));
    draft.imply("train.learning_rate", if task == "dpo" { 1e-6 } else { 2e-5 });
    draft.imply("train.logging_steps", 10);
    draft.imply("train.gradient_checkpointing", true);
    if !is_on("fp16") {
        draft.imply("train.bf16", true);
    }
    if trains_adapters {
        draft.imply("peft.r", 16);
        draft.imply("peft.lora_alpha", 32);
        draft.imply("peft.lora_dropout", 0.05);
    }
}
