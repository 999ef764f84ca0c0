//! LLaMA-Factory's YAML.

mod data_sets;
mod preferences;
mod published;
mod templates;

use std::path::Path;

use serde_json::{Map, Value};

use crate::Refused;
use crate::application::apply;
use crate::draft::Draft;
use crate::rule::{Rule, Table, ValueProblem};
use crate::sources::adapters::{self, Keys, Kind};
use crate::sources::validation;
use crate::values::{is_off, shown};
use data_sets::{Catalog, Stage};

const PREPARED: &str = "rows are prepared once, on all processors of the host";
const ATTENTION: &str = "attention is part of the compiled step";
const GENERATION: &str = "applies to generation alone";

/// The default of `cutoff_len`.
const CUTOFF_LENGTH: u32 = 2048;

/// LoRA's settings.
const ADAPTERS: Keys = &[
    ("lora_rank", "r", Kind::Same),
    ("lora_alpha", "lora_alpha", Kind::Same),
    ("lora_dropout", "lora_dropout", Kind::Same),
    ("lora_target", "target_modules", Kind::Names),
    ("additional_target", "modules_to_save", Kind::Names),
    ("use_rslora", "use_rslora", Kind::Same),
    ("use_dora", "use_dora", Kind::Same),
    ("adapter_name_or_path", "adapter_name_or_path", Kind::Folder),
];

const LAUNCHED: &str = "the daemon starts a job's processes";
const PICTURES: &str = "applies to models that read pictures alone";
const LOSSES: &str = "the loss is the cross entropy of all targets alike; leave it out";

const TABLE: Table = &[
    ("model_name_or_path", Rule::Field("model.name_or_path")),
    ("model_revision", Rule::Field("model.revision")),
    ("trust_remote_code", Rule::Dropped("no code of models is run")),
    ("stage", Rule::Own),
    ("finetuning_type", Rule::Own),
    ("dataset", Rule::Own),
    ("eval_dataset", Rule::Own),
    ("dataset_dir", Rule::Own),
    ("mix_strategy", Rule::Own),
    ("interleave_probs", Rule::Own),
    ("default_system", Rule::Own),
    ("enable_thinking", Rule::Own),
    ("preserve_thinking", Rule::Dropped("applies to mask_history alone")),
    ("media_dir", Rule::Dropped("data.train names files or a data set of the hub")),
    ("template", Rule::Own),
    ("cutoff_len", Rule::Own),
    ("val_size", Rule::Own),
    ("packing", Rule::Own),
    ("neat_packing", Rule::Own),
    ("train_on_prompt", Rule::Own),
    ("mask_history", Rule::Own),
    ("overwrite_cache", Rule::Dropped(PREPARED)),
    ("preprocessing_num_workers", Rule::Dropped(PREPARED)),
    ("preprocessing_batch_size", Rule::Dropped(PREPARED)),
    ("tokenized_path", Rule::Dropped(PREPARED)),
    ("streaming", Rule::Dropped(PREPARED)),
    ("buffer_size", Rule::Dropped(PREPARED)),
    ("cache_dir", Rule::Dropped("the daemon's cache holds what is fetched")),
    ("max_samples", Rule::Field("data.max_samples")),
    ("add_tokens", Rule::Changed("model.add_tokens", listed, "")),
    (
        "add_special_tokens",
        Rule::Changed("model.add_special_tokens.additional_special_tokens", listed, ""),
    ),
    (
        "new_special_tokens",
        Rule::Changed("model.add_special_tokens.additional_special_tokens", listed, ""),
    ),
    ("resize_vocab", Rule::Dropped("embeddings get rows for new tokens in any case")),
    ("plot_loss", Rule::Dropped("loss_curve.svg is written in any case")),
    ("flash_attn", Rule::Dropped(ATTENTION)),
    ("use_unsloth", Rule::Dropped("every step is one compiled program")),
    ("enable_liger_kernel", Rule::Dropped("every step is one compiled program")),
    ("disable_gradient_checkpointing", Rule::Dropped("gradient_checkpointing says it")),
    (
        "quantization_bit",
        Rule::Refused(
            "weights are not quantized; leave it out, and set model.dtype: bfloat16 for frozen weights",
        ),
    ),
    ("pure_bf16", Rule::Refused("trained weights are float32; use bf16")),
    ("quantization_method", Rule::Dropped("applies to quantization alone")),
    ("adapter_name_or_path", Rule::Own),
    ("lora_rank", Rule::Own),
    ("lora_alpha", Rule::Own),
    ("lora_dropout", Rule::Own),
    ("lora_target", Rule::Own),
    ("additional_target", Rule::Own),
    ("use_rslora", Rule::Own),
    ("use_dora", Rule::Own),
    ("freeze_trainable_layers", Rule::Dropped("applies to finetuning_type: freeze alone")),
    ("use_dft_loss", Rule::Refused(LOSSES)),
    ("use_asft_loss", Rule::Refused(LOSSES)),
    ("asft_alpha", Rule::Dropped("applies to use_asft_loss alone")),
    ("use_eaft_loss", Rule::Refused(LOSSES)),
    ("ray_num_workers", Rule::Field("resources.cores")),
    ("ray_run_name", Rule::Dropped(LAUNCHED)),
    ("ray_storage_path", Rule::Dropped(LAUNCHED)),
    ("resources_per_worker", Rule::Dropped(LAUNCHED)),
    ("placement_strategy", Rule::Dropped(LAUNCHED)),
    ("compute_accuracy", Rule::Dropped("evaluations give the accuracy of tokens in any case")),
    ("infer_backend", Rule::Dropped(GENERATION)),
    ("freeze_vision_tower", Rule::Dropped(PICTURES)),
    ("freeze_multi_modal_projector", Rule::Dropped(PICTURES)),
    ("pissa_init", Rule::Refused("adapters begin as PEFT's usual ones; leave it out")),
    (
        "use_muon",
        Rule::Refused("name the optimizer by optim, of those that train.optim has; leave it out"),
    ),
    ("use_galore", Rule::Refused("use optim: adafactor, whose state is small")),
    ("use_badam", Rule::Refused("use optim: adafactor, whose state is small")),
    (
        "predict_with_generate",
        Rule::Refused(
            "evaluations generate texts for seq2seq-lm alone; use loss and perplexity, and \
            `traind generate` for single texts",
        ),
    ),
    ("max_new_tokens", Rule::Dropped(GENERATION)),
    ("top_p", Rule::Dropped(GENERATION)),
    ("temperature", Rule::Dropped(GENERATION)),
    ("export_dir", Rule::Dropped("output_dir is the model folder")),
    (
        "use_swanlab",
        Rule::Dropped("metrics go to TensorBoard's files, or to what train.report_to names"),
    ),
];

/// The names between commas.
fn listed(value: &Value) -> Result<Value, ValueProblem> {
    let Some(text) = value.as_str() else { return Ok(value.clone()) };
    Ok(text.split(',').map(str::trim).collect())
}

pub(crate) fn read(
    settings: &Map<String, Value>,
    info: Option<&Map<String, Value>>,
    draft: &mut Draft,
) {
    let stage = settings.get("stage").map_or("sft".to_owned(), shown);
    check_stage(&stage, settings, draft);
    let has_preferences = ["dpo", "kto"].contains(&stage.as_str());
    for (key, value) in settings {
        if has_preferences || !preferences::is_unused(key, value, draft) {
            apply(&[TABLE, preferences::TABLE], key, value, draft);
        }
    }
    let rows = match stage.as_str() {
        "pt" => Stage::Texts,
        "dpo" | "rm" => Stage::Pairs,
        "kto" => Stage::Answers,
        _ => Stage::Conversations,
    };
    data_sets::read(rows, settings, &Catalog::new(settings, info), draft);
    adapters::frozen_weights(draft);
    templates::mixing(settings, draft);
    phases(settings, draft);
    validation::read(settings, draft, "val_size");
    if rows == Stage::Answers {
        preferences::pair_up_rows(draft);
    }
}

/// LLaMA-Factory trains where `do_train` says so, and its default is not to.
fn phases(settings: &Map<String, Value>, draft: &mut Draft) {
    let is_on = |key: &str| settings.get(key).is_some_and(|value| !is_off(value));
    let is_said = ["do_train", "do_eval", "do_predict"].iter().any(|key| is_on(key));
    if !is_said {
        draft.note("do_train", "true: LLaMA-Factory would neither train nor evaluate without it");
    } else if !is_on("do_train") {
        draft.imply("train.do_train", false);
    }
    let has_rows = is_on("val_size") || is_on("eval_dataset");
    if has_rows && !is_on("do_eval") && draft.get("train.eval_strategy").is_none_or(is_off) {
        draft.imply("train.do_eval", false);
    }
}

/// The user's `dataset_info.json`, if `read` finds it.
pub(crate) fn info(
    settings: &Map<String, Value>,
    read: &dyn Fn(&Path) -> Option<String>,
) -> Result<Option<Map<String, Value>>, Refused> {
    let file = Path::new(&Catalog::new(settings, None).folder).join("dataset_info.json");
    let Some(text) = read(&file) else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|error| {
        Refused::because("dataset_dir", format!("{} is no JSON: {error}", file.display()))
    })
}

fn check_stage(stage: &str, settings: &Map<String, Value>, draft: &mut Draft) {
    match stage {
        "pt" => read_texts(settings, draft),
        "sft" => read_chat(settings, draft),
        "dpo" => preferences::read(settings, draft),
        "rm" => preferences::read_rewards(settings, draft),
        "kto" => preferences::read_answers(settings, draft),
        other => {
            let text = format!(
                "`{other}` is not supported; `sft` trains on conversations, `dpo` and `rm` on pairs \
                of answers, `kto` on good and bad ones, `pt` on plain text"
            );
            draft.refuse("stage", text);
            // All stages but one have a template, whose mistakes are reported too.
            templates::read(settings, draft);
        }
    }
    match settings.get("finetuning_type").map_or("lora".to_owned(), shown).as_str() {
        "freeze" => draft.refuse(
            "finetuning_type",
            "`freeze` is not converted; use `full`, and name what stays as it is in train.freeze",
        ),
        "full" => adapters::read(ADAPTERS, false, settings, draft),
        "lora" => read_adapters(settings, draft),
        other => draft.refuse(
            "finetuning_type",
            format!("`{other}` is not supported; `lora` and `full` are"),
        ),
    }
}

/// Keys of plain text. Each text ends with its token for that; by default, texts follow each other in rows of
/// one length.
fn read_texts(settings: &Map<String, Value>, draft: &mut Draft) {
    draft.imply("model.task", "sft");
    draft.imply("data.format", "completion");
    let given = |key: &str| settings.get(key).filter(|value| !value.is_null());
    let length = given("cutoff_len").filter(|value| !is_off(value)).cloned();
    draft.set("data.max_length", length.unwrap_or(CUTOFF_LENGTH.into()), "cutoff_len");
    if given("packing").is_none_or(|value| !is_off(value)) {
        draft.set("data.packing", true.into(), "packing");
        draft.imply("data.packing_strategy", "wrapped");
        draft.note(
            "packing",
            "the last row of a thousand texts, which LLaMA-Factory drops, may be shorter than cutoff_len",
        );
    } else {
        draft.note(
            "packing",
            "false: a text of more than cutoff_len tokens becomes several rows, none is cut",
        );
    }
    if given("template").is_some_and(|value| !is_off(value)) {
        draft.note("template", "dropped: plain text has none");
    }
}

/// Keys of conversations. Rows hold messages with `role` and `content`.
fn read_chat(settings: &Map<String, Value>, draft: &mut Draft) {
    let is_on = |key: &str| settings.get(key).is_some_and(|value| !is_off(value));
    draft.imply("model.task", "sft");
    let length = settings.get("cutoff_len").filter(|value| !is_off(value)).cloned();
    draft.set("data.max_length", length.unwrap_or(CUTOFF_LENGTH.into()), "cutoff_len");
    match (is_on("packing"), is_on("neat_packing")) {
        (_, true) => draft.set("data.packing", true.into(), "neat_packing"),
        (true, false) => {
            draft.refuse("packing", "texts of a row do not see each other; set neat_packing");
        }
        (false, false) => {}
    }
    templates::read(settings, draft);
}

/// LLaMA-Factory adapts all linear layers, and scales by twice the rank.
fn read_adapters(settings: &Map<String, Value>, draft: &mut Draft) {
    adapters::read(ADAPTERS, true, settings, draft);
    if draft.get("peft.adapter_name_or_path").is_some() {
        return;
    }
    if draft.get("peft.target_modules").is_none() {
        draft.imply("peft.target_modules", "all-linear");
    }
    if draft.get("peft.lora_alpha").is_none() {
        let rank = settings.get("lora_rank").and_then(Value::as_u64).unwrap_or(8);
        draft.set("peft.lora_alpha", (2 * rank).into(), "");
    }
}
