//! axolotl's YAML.

mod answers;
mod datasets;
mod defaults;
mod kernels;
mod layouts;
mod pairs;
mod parallelism;
mod precision;
mod preferences;
mod rhythm;
mod tokens;
mod types;

use serde_json::{Map, Value};

use crate::application::apply;
use crate::draft::Draft;
use crate::rule::{Rule, Table};
use crate::sources::adapters::{self, Keys, Kind};
use crate::sources::validation;
use crate::values::{is_off, shown};

const PREPARED: &str = "rows are prepared once, on all processors of the host";
const ATTENTION: &str = "attention is part of the compiled step";
const QUANTIZED: &str =
    "weights are not quantized; leave it out, and set model.dtype: bfloat16 for frozen weights";
const EVALUATIONS: &str = "evaluations give loss and perplexity";
const CLASS: &str = "config.json says it";
/// LoRA's settings.
const ADAPTERS: Keys = &[
    ("lora_r", "r", Kind::Same),
    ("lora_alpha", "lora_alpha", Kind::Same),
    ("lora_dropout", "lora_dropout", Kind::Same),
    ("lora_target_linear", "target_modules", Kind::AllLinear),
    ("lora_target_modules", "target_modules", Kind::Names),
    ("lora_modules_to_save", "modules_to_save", Kind::Names),
    ("peft_use_dora", "use_dora", Kind::Same),
    ("peft_use_rslora", "use_rslora", Kind::Same),
    ("peft_layers_to_transform", "layers_to_transform", Kind::Same),
    ("lora_model_dir", "adapter_name_or_path", Kind::Folder),
];
const CONTEXT: &str = "rows are not divided among cores; use parallel.tensor with \
    parallel.sequence_parallel";
const WANDB: &str = "`wandb sync` uploads the run's metrics, and has options of its own";

const TABLE: Table = &[
    ("base_model", Rule::Field("model.name_or_path")),
    ("revision_of_model", Rule::Field("model.revision")),
    ("model_type", Rule::Dropped(CLASS)),
    ("tokenizer_type", Rule::Dropped(CLASS)),
    (
        "base_model_config",
        Rule::Refused(
            "the configuration is the model's; leave it out, and give other values as model.config_overrides",
        ),
    ),
    (
        "tokenizer_config",
        Rule::Refused(
            "the tokenizer is the model's; put its files into the model folder, and leave it out",
        ),
    ),
    ("is_llama_derived_model", Rule::Dropped(CLASS)),
    ("is_mistral_derived_model", Rule::Dropped(CLASS)),
    ("load_in_8bit", Rule::Refused(QUANTIZED)),
    ("gptq", Rule::Refused(QUANTIZED)),
    ("load_in_4bit", Rule::Refused(QUANTIZED)),
    ("adapter", Rule::Own),
    ("lora_r", Rule::Own),
    ("lora_alpha", Rule::Own),
    ("lora_dropout", Rule::Own),
    ("lora_target_linear", Rule::Own),
    ("lora_target_modules", Rule::Own),
    ("lora_modules_to_save", Rule::Own),
    ("peft_use_dora", Rule::Own),
    ("peft_use_rslora", Rule::Own),
    ("peft_layers_to_transform", Rule::Own),
    ("lora_model_dir", Rule::Own),
    ("lora_fan_in_fan_out", Rule::Dropped("the layers of the model say it")),
    ("datasets", Rule::Own),
    ("test_datasets", Rule::Own),
    ("dataset_prepared_path", Rule::Dropped(PREPARED)),
    ("dataset_processes", Rule::Dropped(PREPARED)),
    ("streaming", Rule::Dropped(PREPARED)),
    ("streaming_multipack_buffer_size", Rule::Dropped(PREPARED)),
    (
        "max_packed_sequence_len",
        Rule::Refused(
            "axolotl refuses it since it has sample_packing; give sequence_len, and sample_packing: true for texts \
            that share rows",
        ),
    ),
    ("batch_size", Rule::Own),
    ("shuffle_merged_datasets", Rule::Dropped("train_sampling_strategy says the order of rows")),
    ("hub_model_id", Rule::Own),
    ("push_dataset_to_hub", Rule::Dropped("nothing is uploaded")),
    ("chat_template", Rule::Own),
    ("chat_template_jinja", Rule::Own),
    ("eot_tokens", Rule::Own),
    ("excess_length_strategy", Rule::Own),
    ("val_set_size", Rule::Own),
    ("sequence_len", Rule::Own),
    ("sample_packing", Rule::Own),
    ("eval_sample_packing", Rule::Own),
    ("pad_to_sequence_len", Rule::Dropped("rows are padded as needed, and padding is masked")),
    ("train_on_inputs", Rule::Own),
    ("special_tokens", Rule::Own),
    ("tokens", Rule::Own),
    ("resize_token_embeddings_to_32x", Rule::Own),
    ("micro_batch_size", Rule::Field("train.per_device_train_batch_size")),
    ("eval_batch_size", Rule::Field("train.per_device_eval_batch_size")),
    ("num_epochs", Rule::Field("train.num_train_epochs")),
    ("optimizer", Rule::Own),
    ("lr_scheduler", Rule::Own),
    ("cosine_min_lr_ratio", Rule::Own),
    ("eta_min", Rule::Own),
    ("evals_per_epoch", Rule::Own),
    ("warmup_ratio", Rule::Own),
    ("saves_per_epoch", Rule::Own),
    ("bf16", Rule::Own),
    ("bfloat16", Rule::Own),
    ("float16", Rule::Own),
    ("float32", Rule::Own),
    ("fp16", Rule::Own),
    ("tf32", Rule::Own),
    ("gradient_checkpointing", Rule::Own),
    ("flash_attention", Rule::Dropped(ATTENTION)),
    ("flash_attn_cross_entropy", Rule::Dropped(ATTENTION)),
    ("flash_attn_rms_norm", Rule::Dropped(ATTENTION)),
    ("flash_attn_fuse_mlp", Rule::Dropped(ATTENTION)),
    ("xformers_attention", Rule::Dropped(ATTENTION)),
    ("sdp_attention", Rule::Dropped(ATTENTION)),
    ("attn_implementation", Rule::Dropped(ATTENTION)),
    ("s2_attention", Rule::Refused("attention is full; leave it out")),
    ("plugins", Rule::Dropped("every step is one compiled program")),
    ("torch_compile", Rule::Dropped("every step is one compiled program")),
    ("wandb_project", Rule::Own),
    ("wandb_entity", Rule::Dropped(WANDB)),
    ("wandb_watch", Rule::Dropped(WANDB)),
    ("wandb_name", Rule::Field("train.run_name")),
    ("wandb_run_id", Rule::Dropped("the run has the id of the job")),
    ("wandb_log_model", Rule::Dropped(WANDB)),
    ("wandb_mode", Rule::Dropped(WANDB)),
    ("mlflow_experiment_name", Rule::Own),
    ("mlflow_tracking_uri", Rule::Refused("set MLFLOW_TRACKING_URI in the daemon's environment")),
    ("mlflow_run_name", Rule::Field("train.run_name")),
    ("hf_mlflow_log_artifacts", Rule::Dropped("models are in output_dir")),
    ("local_rank", Rule::Dropped("the runner starts one worker per core")),
    ("strict", Rule::Dropped("config.json and weights are checked")),
    ("auto_resume_from_checkpoints", Rule::Field("train.resume_from_checkpoint")),
    ("eval_table_size", Rule::Dropped(EVALUATIONS)),
    ("do_causal_lm_eval", Rule::Dropped(EVALUATIONS)),
    ("eval_causal_lm_metrics", Rule::Dropped(EVALUATIONS)),
    ("eval_max_new_tokens", Rule::Dropped("evaluations of causal-lm generate no texts")),
    ("fsdp_version", Rule::Own),
    ("tensor_parallel_size", Rule::Field("parallel.tensor")),
    ("dp_replicate_size", Rule::Own),
    ("dp_shard_size", Rule::Own),
    ("load_best_model_at_end", Rule::Own),
    ("context_parallel_size", Rule::Refused(CONTEXT)),
    ("sequence_parallel_degree", Rule::Refused(CONTEXT)),
    ("debug", Rule::Dropped("events and metrics show where time goes")),
];

/// The rows of a job's data sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// Conversations, instructions and texts.
    Conversations,
    /// Prompts with a chosen and a rejected completion.
    Pairs,
    /// Prompts with a completion that is desirable or not.
    Answers,
}

impl Rows {
    /// The rows of a task of preferences, or of none.
    fn of(task: Option<&str>) -> Self {
        match task {
            None => Self::Conversations,
            Some("kto") => Self::Answers,
            Some(_) => Self::Pairs,
        }
    }
}

pub(crate) fn read(settings: &Map<String, Value>, draft: &mut Draft) {
    let task = preferences::task(settings);
    let rows = Rows::of(task);
    draft.imply("model.task", task.unwrap_or("sft"));
    for (key, value) in settings {
        if defaults::is_without_rows(key, settings, draft) {
            continue;
        }
        if task.is_some() || !preferences::is_unused(key, value, draft) {
            apply(&[TABLE, preferences::TABLE, kernels::TABLE], key, value, draft);
        }
    }
    read_adapters(settings, draft);
    match task {
        None => read_chat(settings, draft),
        Some(task) => preferences::read(task, settings, draft),
    }
    datasets::read(rows, settings, draft);
    tokens::read(rows, settings, draft);
    read_values(settings, draft);
    if let Some(id) = settings.get("hub_model_id").filter(|value| !is_off(value)) {
        draft.set("train.push_to_hub", true.into(), "");
        draft.set("train.hub_model_id", id.clone(), "hub_model_id");
        draft.imply("train.hub_private_repo", true);
    }
    rhythm::read(settings, draft);
    defaults::read(settings, draft);
}

/// Whether there are rows to evaluate on.
fn evaluates(draft: &Draft) -> bool {
    ["data.validation", "data.validation_split"].iter().any(|path| draft.get(path).is_some())
}

const PACKED: &str = "rows are packed best-fit into sequence_len tokens; axolotl packs in an order of its own and drops \
    the last batch, so that an epoch can have a few steps more or fewer";

/// Keys of messages. The answers of the assistant alone are trained on, unless inputs are too.
fn read_chat(settings: &Map<String, Value>, draft: &mut Draft) {
    let is_on = |key: &str| settings.get(key).is_some_and(|value| !is_off(value));
    if let Some(length) = settings.get("sequence_len").filter(|value| !is_off(value)) {
        draft.set("data.max_length", length.clone(), "sequence_len");
    }
    if is_on("sample_packing") {
        draft.set("data.packing", true.into(), "sample_packing");
        draft.note("sample_packing", PACKED);
    }
    if is_on("sample_packing") && settings.get("eval_sample_packing") == Some(&Value::Bool(false)) {
        draft.imply("train.dataloader_drop_last", true);
    }
    let packing = settings.get("eval_sample_packing").filter(|value| value.is_boolean());
    match packing {
        Some(packing) if !is_on("val_set_size") => {
            draft.set("data.eval_packing", packing.clone(), "eval_sample_packing");
        }
        Some(packing) if *packing != is_on("sample_packing") => {
            draft.note("eval_sample_packing", "dropped: rows are packed before the split");
        }
        _ => {}
    }
    read_targets(settings, draft);
}

/// The template of conversations, and the turns to train on.
fn read_targets(settings: &Map<String, Value>, draft: &mut Draft) {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value));
    let without_template = match () {
        () if datasets::are_texts(settings) => Some("dropped: plain text has none"),
        () if datasets::have_prompts(settings) => {
            Some("dropped: instructions have prompts instead")
        }
        () => None,
    };
    match without_template {
        Some(reason) => {
            for key in ["chat_template", "chat_template_jinja"] {
                if given(key).is_some() {
                    draft.note(key, reason);
                }
            }
        }
        None => layouts::template("", &Value::Object(settings.clone()), draft),
    }
    match given("train_on_inputs") {
        Some(_) if datasets::are_texts(settings) => {
            draft.note("train_on_inputs", "dropped: plain text has no inputs apart");
        }
        Some(_) => draft.set("data.train_on_inputs", true.into(), "train_on_inputs"),
        None => {}
    }
    match given("excess_length_strategy").map(shown).as_deref() {
        None | Some("drop") => draft.set("data.excess_length_strategy", "drop".into(), ""),
        Some("truncate") => {}
        Some(other) => {
            let text = format!("`{other}` is not supported; `drop` and `truncate` are");
            draft.refuse("excess_length_strategy", text);
        }
    }
}

fn read_adapters(settings: &Map<String, Value>, draft: &mut Draft) {
    let kind = settings.get("adapter").filter(|value| !is_off(value)).map(shown);
    if let Some(kind) = kind.as_deref().filter(|kind| *kind != "lora") {
        let advice = "is not supported; `lora` keeps the weights as they are, or in bfloat16";
        draft.refuse("adapter", format!("`{kind}` {advice}"));
    }
    adapters::read(ADAPTERS, kind.is_some(), settings, draft);
}

/// Where metrics are written.
fn read_reports(settings: &Map<String, Value>, draft: &mut Draft) {
    let known = [("wandb_project", "wandb"), ("mlflow_experiment_name", "mlflow")];
    let given = |(key, place)| {
        let project = settings.get(key).filter(|value| !is_off(value))?;
        Some((key, place, project))
    };
    let given: Vec<(&str, &str, &Value)> = known.into_iter().filter_map(given).collect();
    for (key, _, project) in &given {
        draft.set("train.project", (*project).clone(), key);
    }
    match given.as_slice() {
        [] => {}
        [(key, place, _)] => draft.set("train.report_to", (*place).into(), key),
        [(key, ..), ..] => {
            let places: Vec<&str> = given.iter().map(|(_, place, _)| *place).collect();
            draft.set("train.report_to", places.into(), key);
        }
    }
}

/// The schedule, with the rate that a cosine ends at: by itself, or as a share of the first.
fn schedule(settings: &Map<String, Value>, draft: &mut Draft) {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value)).cloned();
    let name = given("lr_scheduler");
    let ends = [("cosine_min_lr_ratio", "min_lr_rate"), ("eta_min", "min_lr")];
    let mut ends = ends.into_iter().filter_map(|(key, name)| Some((key, name, given(key)?)));
    let Some((key, argument, rate)) = ends.next() else {
        if let Some(name) = name {
            draft.set("train.lr_scheduler_type", name, "lr_scheduler");
        }
        return;
    };
    if name.is_none_or(|name| name != "cosine") {
        return draft.refuse(key, "applies to lr_scheduler: cosine; set that, or leave it out");
    }
    draft.set("train.lr_scheduler_type", "cosine_with_min_lr".into(), "lr_scheduler");
    let kwargs = Map::from_iter([(argument.to_owned(), rate)]);
    draft.set("train.lr_scheduler_kwargs", kwargs.into(), key);
}

/// Keys whose values need a look.
fn read_values(settings: &Map<String, Value>, draft: &mut Draft) {
    schedule(settings, draft);
    read_reports(settings, draft);
    validation::read(settings, draft, "val_set_size");
    precision::read(settings, draft);
    adapters::frozen_weights(draft);
    if let Some(value) = settings.get("gradient_checkpointing").filter(|value| !is_off(value)) {
        if !value.is_boolean() {
            draft.note("gradient_checkpointing", "true: activations are recomputed layer by layer");
        }
        draft.set("train.gradient_checkpointing", true.into(), "gradient_checkpointing");
    }
    if let Some(name) = settings.get("optimizer") {
        apply(&[], "optim", name, draft);
    }
    batch(settings, draft);
    parallelism::read(settings, draft);
}

/// `batch_size` is the number of rows of a core and step.
fn batch(settings: &Map<String, Value>, draft: &mut Draft) {
    const KEY: &str = "batch_size";
    let number = |key: &str| settings.get(key).and_then(Value::as_u64).filter(|number| *number > 0);
    let Some(rows) = number(KEY) else { return };
    let size = number("micro_batch_size").unwrap_or(1);
    match number("gradient_accumulation_steps") {
        Some(_) => draft.refuse(
            KEY,
            "is given with gradient_accumulation_steps, of which it follows; leave it out",
        ),
        None if rows.is_multiple_of(size) => {
            draft.note(KEY, "batch_size / micro_batch_size batches of a core are one step");
            draft.set("train.gradient_accumulation_steps", (rows / size).into(), KEY);
        }
        None => draft.refuse(KEY, format!("must be a multiple of micro_batch_size, {size}")),
    }
}
