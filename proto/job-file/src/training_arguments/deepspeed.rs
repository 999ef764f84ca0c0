//! `deepspeed` and `fsdp_config` of TrainingArguments, given as mappings, read as the keys of the job
//! file that they stand for.

use traind_choices::Fsdp;

use super::fsdp;
use super::nested::{Misspelling, ZERO, misspellings};
use crate::aliases::section_of;
use crate::node::{Entry, Node, Value};
use crate::problems::{ALIAS_USED, FIELD_UNUSED, Problems, join};

const DEEPSPEED: &str = "train.deepspeed";
const FSDP_CONFIG: &str = "train.fsdp_config";
const A_FILE: &str =
    "is a file, which is not read; give its content as a mapping, or use parallel.fsdp";
const OFFLOADED_PARAMETERS: &str = "parameters stay on the cores, of which more take smaller shards; \
    of the state in host memory, offload_optimizer is read";
const NOT_READ: &str = "is not read; use the keys of `train`";
const ON_DISK: &str = "state is offloaded to host memory, not to disks; use `device: cpu`";

/// Keys of DeepSpeed that are keys of `train`.
const NUMBERS: [(&str, &str); 3] = [
    ("gradient_clipping", "max_grad_norm"),
    ("gradient_accumulation_steps", "gradient_accumulation_steps"),
    ("train_micro_batch_size_per_gpu", "per_device_train_batch_size"),
];

/// Reads both where they are mappings; files are refused.
pub(super) fn apply(root: &mut Node, problems: &mut Problems) {
    if let Some(config) = take(root, "deepspeed", DEEPSPEED, problems) {
        read_deepspeed(root, &config, problems);
    }
    if let Some(config) = take(root, "fsdp_config", FSDP_CONFIG, problems) {
        read_fsdp_config(root, &config, problems);
    }
}

/// Refuses misspelled keys and values of a mapping; returns whether there are any.
fn refuse_misspelled(argument: &str, config: &[Entry], problems: &mut Problems) -> bool {
    let value = Node { value: Value::Map(config.to_vec()), at: None }.to_json();
    let found = misspellings(argument, &value);
    for Misspelling { path, problem } in &found {
        problems.violation(&join("train", path), problem);
    }
    !found.is_empty()
}

/// Takes a mapping out of `train`. An empty one says nothing.
fn take(root: &mut Node, key: &str, path: &str, problems: &mut Problems) -> Option<Vec<Entry>> {
    let train = section_of(root, "train")?;
    let at = train.iter().position(|entry| entry.key == key)?;
    match &train[at].node.value {
        Value::Map(entries) if !entries.is_empty() => {
            let entries = entries.clone();
            train.remove(at);
            Some(entries)
        }
        Value::Text(text) if !text.is_empty() => {
            train.remove(at);
            problems.violation(path, A_FILE);
            None
        }
        _ => None,
    }
}

fn read_deepspeed(root: &mut Node, config: &[Entry], problems: &mut Problems) {
    if refuse_misspelled("deepspeed", config, problems) {
        return;
    }
    for Entry { key, node, .. } in config {
        let path = join(DEEPSPEED, key);
        let number = NUMBERS.iter().find(|(name, _)| name == key).map(|(_, field)| *field);
        match (key.as_str(), &node.value) {
            (_, Value::Text(text)) if text == "auto" => {}
            ("zero_optimization", Value::Map(zero)) => read_zero(root, zero, problems),
            ("bf16" | "bfloat16" | "fp16", Value::Map(entries)) => {
                let field = if key == "fp16" { "fp16" } else { "bf16" };
                if is_true(entries, "enabled") {
                    imply(root, "train", field, Value::Bool(true), &path, problems);
                }
            }
            ("optimizer", Value::Map(entries)) => read_optimizer(root, entries, &path, problems),
            ("scheduler", Value::Map(entries)) => read_scheduler(root, entries, &path, problems),
            ("optimizer" | "scheduler", _) => problems.violation(&path, NOT_READ),
            (_, value) => match number {
                Some(field) => imply(root, "train", field, value.clone(), &path, problems),
                None => problems.warning(FIELD_UNUSED, &path, "has no effect"),
            },
        }
    }
}

/// AdamW with the values of `train`, or with some of its own. Without `lr`, DeepSpeed would take another one.
fn read_optimizer(root: &mut Node, entries: &[Entry], path: &str, problems: &mut Problems) {
    let params = params(entries);
    let is_adamw = text(entries, "type")
        .is_some_and(|name| ["adam", "adamw"].contains(&name.to_ascii_lowercase().as_str()));
    let is_known = |Entry { key, node, .. }: &Entry| match key.as_str() {
        "lr" | "eps" | "weight_decay" => is_auto(node) || number(node).is_some(),
        "betas" => is_auto(node) || betas(node).is_some(),
        "adam_w_mode" | "bias_correction" => node.value == Value::Bool(true),
        "torch_adam" => matches!(node.value, Value::Bool(_)),
        _ => false,
    };
    if !is_adamw || entry(params, "lr").is_none() || !params.iter().all(is_known) {
        return problems.violation(path, NOT_READ);
    }
    imply(root, "train", "optim", Value::Text("adamw_torch".to_owned()), path, problems);
    let [lr, eps, decay] = ["lr", "eps", "weight_decay"].map(|key| (key, entry(params, key)));
    let fields = [(lr, "learning_rate"), (eps, "adam_epsilon"), (decay, "weight_decay")];
    for ((key, node), field) in fields {
        if let Some(value) = node.and_then(number) {
            imply(root, "train", field, value.clone(), &join(path, key), problems);
        }
    }
    let [first, second] =
        entry(params, "betas").and_then(betas).map_or([None, None], |it| it.map(Some));
    for (value, field) in [(first, "adam_beta1"), (second, "adam_beta2")] {
        if let Some(value) = value {
            imply(root, "train", field, value.clone(), &join(path, "betas"), problems);
        }
    }
}

/// A schedule with the values of `train`, or with some of its own, which takes the place of `lr_scheduler_type`.
fn read_scheduler(root: &mut Node, entries: &[Entry], path: &str, problems: &mut Problems) {
    let params = params(entries);
    let schedule = match text(entries, "type") {
        Some("WarmupLR") => Some("constant_with_warmup"),
        Some("WarmupDecayLR") => Some("linear"),
        Some("WarmupCosineLR") => Some("cosine"),
        _ => None,
    };
    let is_known = |Entry { key, node, .. }: &Entry| match key.as_str() {
        "warmup_max_lr" | "warmup_num_steps" => is_auto(node) || number(node).is_some(),
        "warmup_min_lr" => is_auto(node) || matches!(node.value, Value::Integer(0)),
        "total_num_steps" => is_auto(node),
        "warmup_type" => {
            matches!(&node.value, Value::Text(kind) if kind == "log" || kind == "linear")
        }
        _ => false,
    };
    let Some(schedule) = schedule.filter(|_| params.iter().all(is_known)) else {
        return problems.violation(path, NOT_READ);
    };
    imply(root, "train", "lr_scheduler_type", Value::Text(schedule.to_owned()), path, problems);
    for (key, field) in [("warmup_max_lr", "learning_rate"), ("warmup_num_steps", "warmup_steps")] {
        if let Some(value) = entry(params, key).and_then(number) {
            imply(root, "train", field, value.clone(), &join(path, key), problems);
        }
    }
    if text(params, "warmup_type") != Some("linear") {
        let path = join(path, "warmup_type");
        problems.warning(FIELD_UNUSED, &path, "has no effect: the rate rises in a line");
    }
}

fn params(entries: &[Entry]) -> &[Entry] {
    match entry(entries, "params").map(|node| &node.value) {
        Some(Value::Map(params)) => params,
        _ => &[],
    }
}

fn is_auto(node: &Node) -> bool {
    matches!(&node.value, Value::Text(text) if text == "auto")
}

fn number(node: &Node) -> Option<&Value> {
    Some(&node.value).filter(|value| matches!(value, Value::Integer(_) | Value::Float(_)))
}

fn betas(node: &Node) -> Option<[&Value; 2]> {
    let Value::List(items) = &node.value else { return None };
    let [first, second] = items.as_slice() else { return None };
    Some([number(first)?, number(second)?])
}

/// The stages of ZeRO: nothing, the optimizer's state, also gradients, also parameters.
fn read_zero(root: &mut Node, zero: &[Entry], problems: &mut Problems) {
    let path = join(DEEPSPEED, "zero_optimization");
    for Entry { key, .. } in zero.iter().filter(|it| !ZERO.contains(&it.key.as_str())) {
        problems.warning(FIELD_UNUSED, &join(&path, key), "has no effect");
    }
    read_offload(root, zero, &path, problems);
    let stages = [Fsdp::No, Fsdp::ShardOptimizer, Fsdp::ShardGradOp, Fsdp::FullShard];
    let path = join(&path, "stage");
    let stage = match entry(zero, "stage").map(|node| &node.value) {
        Some(Value::Integer(stage)) => usize::try_from(*stage).unwrap_or_default(),
        _ => 0,
    };
    let fsdp = stages.get(stage).copied().unwrap_or(Fsdp::No);
    imply(root, "parallel", "fsdp", Value::Text(fsdp.to_string()), &path, problems);
}

/// The optimizer's state in host memory, under DeepSpeed's name of today and its former ones.
fn read_offload(root: &mut Node, zero: &[Entry], path: &str, problems: &mut Problems) {
    for (part, former) in
        [("offload_optimizer", "cpu_offload"), ("offload_param", "cpu_offload_params")]
    {
        let (key, device) = match device(zero, part) {
            Some(device) => (part, device),
            None if is_true(zero, former) => (former, "cpu"),
            None => continue,
        };
        let path = join(path, key);
        match (part, device) {
            (_, "none") => {}
            ("offload_param", _) => problems.violation(&path, OFFLOADED_PARAMETERS),
            (_, "nvme") => problems.violation(&path, ON_DISK),
            _ => {
                let optimizer = Value::Text("optimizer".to_owned());
                imply(root, "parallel", "offload", optimizer, &path, problems);
            }
        }
    }
}

/// The device that a part of ZeRO offloads to; without a name it is the host's memory.
fn device<'a>(zero: &'a [Entry], part: &str) -> Option<&'a str> {
    match &entry(zero, part)?.value {
        Value::Map(entries) => Some(text(entries, "device").unwrap_or("cpu")),
        _ => None,
    }
}

fn read_fsdp_config(root: &mut Node, config: &[Entry], problems: &mut Problems) {
    if refuse_misspelled("fsdp_config", config, problems) {
        return;
    }
    let mut unused = Vec::new();
    for Entry { key, node, .. } in config {
        let (path, is_true) = (join(FSDP_CONFIG, key), node.value == Value::Bool(true));
        match key.strip_prefix("fsdp_").unwrap_or(key) {
            "activation_checkpointing" if is_true => {
                imply(root, "train", "gradient_checkpointing", Value::Bool(true), &path, problems);
            }
            "offload_params" | "cpu_offload" | "offload" if is_true => {
                fsdp::keep_on_host(root, &path, problems);
            }
            "reshard_after_forward" if node.value == Value::Bool(false) => {
                fsdp::keep_parameters(root);
                problems.warning(ALIAS_USED, &path, "is read as `parallel.fsdp: shard_grad_op`");
            }
            _ => unused.push(key.as_str()),
        }
    }
    if !unused.is_empty() {
        let text =
            format!("each layer is gathered by itself; without effect: {}", unused.join(", "));
        problems.warning(FIELD_UNUSED, FSDP_CONFIG, text);
    }
}

/// Gives a key that the job file leaves out a value.
fn imply(
    root: &mut Node,
    section: &str,
    key: &str,
    value: Value,
    path: &str,
    problems: &mut Problems,
) {
    let shown = match &value {
        Value::Text(text) => text.clone(),
        Value::Bool(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        _ => return problems.violation(path, "must be a number or `auto`"),
    };
    let field = join(section, key);
    let given = section_of(root, section).is_some_and(|keys| keys.iter().any(|it| it.key == key));
    if given {
        return;
    }
    problems.warning(ALIAS_USED, path, format!("is read as `{field}: {shown}`"));
    fsdp::insert(root, section, key, value);
}

fn entry<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Node> {
    entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
}

fn is_true(entries: &[Entry], key: &str) -> bool {
    entry(entries, key).is_some_and(|node| node.value == Value::Bool(true))
}

fn text<'a>(entries: &'a [Entry], key: &str) -> Option<&'a str> {
    match &entry(entries, key)?.value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}
