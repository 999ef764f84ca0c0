//! Applies tables of rules to a draft, and treats the keys that no table has as TrainingArguments.

use std::sync::LazyLock;

use serde_json::Value;
use traind_job_file::{
    MAPPINGS, Misspelling, Sharding, Treatment, fsdp_of_words, misspelled_flag, misspellings,
    training_argument, training_arguments,
};

use crate::draft::Draft;
use crate::rule::{Rule, Table, ValueProblem, is_field, keys, nearest, train_keys, unknown};
use crate::shared::{Keys, TABLES, plain_of};
use crate::values::{is_flag, is_off, plain, shown};

/// Keys of all tools that are on or off, where the job file has another value or none.
const FLAGS: [&str; 22] = [
    "adafactor",
    "bfloat16",
    "do_eval",
    "do_predict",
    "do_train",
    "enable_thinking",
    "eval_sample_packing",
    "float16",
    "float32",
    "group_by_length",
    "load_best_model_at_end",
    "lora_target_linear",
    "mask_history",
    "neat_packing",
    "packing",
    "peft_use_dora",
    "peft_use_rslora",
    "sample_packing",
    "train_on_inputs",
    "train_on_prompt",
    "use_dora",
    "use_rslora",
];

/// Applies the first table that has the key, else treats it as one of TrainingArguments.
pub(crate) fn apply(tables: &[Table], key: &str, value: &Value, draft: &mut Draft) {
    if value.is_null() {
        return;
    }
    let rule = tables.iter().copied().flatten().find(|(name, _)| *name == key);
    let rule = rule.map(|(_, rule)| rule);
    let is_flag_key = FLAGS.contains(&key);
    let may_be_flag = is_flag_key
        || matches!(rule, Some(Rule::Switch(..) | Rule::Dropped(_) | Rule::Refused(_) | Rule::Own));
    if let (true, Some(word)) = (may_be_flag, misspelled_flag(value)) {
        return draft.refuse(key, format!("is {}; did you mean `{word}`?", shown(value)));
    }
    if is_flag_key && !is_flag(value) {
        return draft.refuse(key, format!("must be true or false, not {}", shown(value)));
    }
    match rule {
        Some(Rule::Field(path)) => draft.set(path, value.clone(), key),
        Some(Rule::Changed(path, change, reason)) => match change(value) {
            Ok(changed) => {
                if changed != *value && !is_off(value) && !reason.is_empty() {
                    draft.note(key, *reason);
                }
                draft.set(path, changed, key);
            }
            Err(problem) => draft.refuse(key, problem.to_string()),
        },
        Some(Rule::Switch(path, on)) => {
            if !is_off(value) {
                draft.set(path, (*on).clone(), key);
            }
        }
        Some(Rule::Dropped(reason)) => {
            if !is_off(value) {
                draft.note(key, format!("dropped: {reason}"));
            }
        }
        Some(Rule::Refused(advice)) => {
            if !is_off(value) {
                draft.refuse(key, *advice);
            }
        }
        Some(Rule::Own) => {}
        None => training_argument_of(tables, key, value, draft),
    }
}

const LAYERS: &str = "each layer is gathered by itself";

/// Names of earlier versions, with today's.
static RENAMED: Keys = LazyLock::new(|| TABLES.former.keys());

/// Arguments of optimum-neuron's trainers.
static NEURON: Keys = LazyLock::new(|| TABLES.neuron.keys());

/// Names of earlier versions whose values differ from today's.
const FORMER: Table = &[
    ("warmup_ratio", Rule::Changed("train.warmup_steps", ratio, "")),
    ("group_by_length", Rule::Changed("train.train_sampling_strategy", by_length, "")),
    ("adafactor", Rule::Changed("train.optim", adafactor, "")),
    (
        "report_to",
        Rule::Changed(
            "train.report_to",
            report_to,
            "metrics go to TensorBoard's files, MLflow, W&B's offline runs and the job's events alone",
        ),
    ),
    ("fsdp", Rule::Changed("parallel.fsdp", fsdp, "")),
    ("run_name", Rule::Field("name")),
    ("output_dir", Rule::Field("output_dir")),
    ("fsdp_transformer_layer_cls_to_wrap", Rule::Dropped(LAYERS)),
    ("fsdp_min_num_params", Rule::Dropped(LAYERS)),
    // The Trainer trains when train() is called, whatever they say; scripts look at them.
    ("tf32", Rule::Field("train.tf32")),
];

fn training_argument_of(tables: &[Table], key: &str, value: &Value, draft: &mut Draft) {
    let value = if MAPPINGS.contains(&key) { mapping(value) } else { plain_of(key, value) };
    // Switched off, these say nothing.
    let says_nothing =
        ["adafactor", "warmup_ratio", "group_by_length", "fsdp"].contains(&key) && is_off(&value);
    // Dumps of TrainingArguments have it, whatever they report to.
    let is_default_project = key == "project" && value == "huggingface";
    if says_nothing || is_default_project {
        return;
    }
    if key == "fsdp" && sharding(&value).is_some_and(|words| words.offload) {
        draft.note(key, "offload: the optimizer's state is kept in host memory, and nothing else");
        draft.set("parallel.offload", serde_json::json!(["optimizer"]), key);
    }
    if key == "optim" {
        return optimizer(&value, draft);
    }
    let former: [Table; 3] = [FORMER, &RENAMED, &NEURON];
    if NEURON.iter().any(|(name, _)| *name == key) {
        draft.imply("resources.platform", "neuron");
    }
    if former.iter().copied().flatten().any(|(name, _)| *name == key) {
        return apply(&former, key, &value, draft);
    }
    let path = format!("train.{key}");
    if is_field(&path) {
        if !is_empty(&value) {
            draft.set(&path, value, key);
        }
        return;
    }
    // The job file reads mappings, and refuses the names of files.
    if ["deepspeed", "fsdp_config"].contains(&key) && value.is_object() && !is_empty(&value) {
        for Misspelling { path, problem } in misspellings(key, &value) {
            draft.refuse(&path, problem);
        }
        return draft.set(&path, value, key);
    }
    match training_argument(key) {
        Some(argument) if argument.is_default(&value.to_string()) => {}
        Some(argument) => match argument.treatment {
            Treatment::NoEffect(reason) => draft.note(key, format!("dropped: {reason}")),
            Treatment::Always(_) => {}
            Treatment::Refused(_) | Treatment::Only(..) if is_off(&value) => {}
            Treatment::Only(known, _) if among(&value, known) => {}
            Treatment::Refused(advice) | Treatment::Only(_, advice) => draft.refuse(key, advice),
        },
        None => {
            let known = keys(tables).chain(keys(&former)).chain(train_keys());
            let known = known.chain(training_arguments().map(|argument| argument.name));
            let advice =
                "if the job needs it, look for its key in docs/job-file.md, else remove it";
            draft.refuse(key, unknown(key, known, advice));
        }
    }
}

/// A mapping that is given as JSON text, as on a command line; other values as they are.
fn mapping(value: &Value) -> Value {
    let parsed = value.as_str().filter(|text| text.starts_with('{'));
    parsed.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| plain(value))
}

/// Whether a value is one of `known`, or a list of some.
fn among(value: &Value, known: &[&str]) -> bool {
    match value {
        Value::String(text) => known.contains(&text.as_str()),
        Value::Array(values) => values.iter().all(|value| among(value, known)),
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty) || value.as_str() == Some("")
}

fn ratio(value: &Value) -> Result<Value, ValueProblem> {
    let share = value.as_f64().filter(|share| (0.0..1.0).contains(share));
    share.map(Value::from).ok_or_else(|| ValueProblem::NotAShare { found: shown(value) })
}

fn by_length(_: &Value) -> Result<Value, ValueProblem> {
    Ok("group_by_length".into())
}

fn fsdp(value: &Value) -> Result<Value, ValueProblem> {
    if value == &Value::Bool(true) {
        return Ok("full_shard".into());
    }
    let meant = sharding(value).ok_or_else(|| ValueProblem::NoShards { found: shown(value) })?;
    Ok(meant.fsdp.to_string().into())
}

fn sharding(value: &Value) -> Option<Sharding> {
    match value {
        Value::String(text) => fsdp_of_words(text.split_whitespace()),
        Value::Array(words) => fsdp_of_words(words.iter().filter_map(Value::as_str)),
        _ => None,
    }
}

fn adafactor(_: &Value) -> Result<Value, ValueProblem> {
    Ok("adafactor".into())
}

/// Names of optimizers that compute the same update as another.
const SAME_UPDATE: [&str; 8] = [
    "adamw_torch_fused",
    "adamw_torch_xla",
    "adamw_torch_npu_fused",
    "adamw_apex_fused",
    "adamw_hf",
    "adamw",
    "paged_adamw",
    "paged_adamw_32bit",
];
/// Optimizers that round their state to few bits, with the one that does not.
const ROUNDED: [(&str, &str); 8] = [
    ("adamw_torch_4bit", "adamw_torch"),
    ("adamw_torch_8bit", "adamw_torch"),
    ("adamw_bnb_8bit", "adamw_torch"),
    ("adamw_8bit", "adamw_torch"),
    ("paged_adamw_8bit", "adamw_torch"),
    ("lion_8bit", "lion_32bit"),
    ("paged_lion_8bit", "lion_32bit"),
    ("rmsprop_bnb_8bit", "rmsprop"),
];

fn optimizer(value: &Value, draft: &mut Draft) {
    const KEY: &str = "optim";
    let name = value.as_str().unwrap_or_default();
    let exact = ROUNDED.iter().find(|(rounded, _)| *rounded == name).map(|(_, exact)| *exact);
    let (changed, note) = match exact {
        Some(exact) => (
            exact,
            format!(
                "{exact}: the optimizer's state is float32, where {name} rounds it: losses differ by \
                 that rounding, and the state takes 8 bytes a trained parameter"
            ),
        ),
        None if SAME_UPDATE.contains(&name) => {
            ("adamw_torch", "the same update under PyTorch's name".to_owned())
        }
        None => return draft.set("train.optim", value.clone(), KEY),
    };
    draft.note(KEY, note);
    draft.set("train.optim", changed.into(), KEY);
}

/// Places of metrics that transformers knows, besides those of the job file.
const TRACKERS: [&str; 18] = [
    "all",
    "azure_ml",
    "clearml",
    "codecarbon",
    "comet_ml",
    "dagshub",
    "dvclive",
    "flyte",
    "kubeflow",
    "mlflow",
    "neptune",
    "none",
    "ray",
    "sigopt",
    "swanlab",
    "tensorboard",
    "trackio",
    "wandb",
];

fn check_trackers(names: &[Value]) -> Result<(), ValueProblem> {
    let is_known = |name: &str| TRACKERS.contains(&name);
    let unknown = names.iter().find(|name| !is_off(name) && !name.as_str().is_some_and(is_known));
    let Some(unknown) = unknown.map(shown) else { return Ok(()) };
    let advice = match nearest(&unknown, TRACKERS) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "tensorboard, mlflow, wandb and none are".to_owned(),
    };
    Err(ValueProblem::NoTracker { found: unknown, advice })
}

fn report_to(value: &Value) -> Result<Value, ValueProblem> {
    let names = match value {
        Value::Array(names) => names.clone(),
        name => vec![name.clone()],
    };
    check_trackers(&names)?;
    let names_one = |known: &&str| {
        names.iter().any(|name| name.as_str().is_some_and(|name| name == *known || name == "all"))
    };
    let known: Vec<&str> =
        ["tensorboard", "mlflow", "wandb"].into_iter().filter(names_one).collect();
    Ok(match known.as_slice() {
        [] => "none".into(),
        [name] => (*name).into(),
        names => names.into(),
    })
}
