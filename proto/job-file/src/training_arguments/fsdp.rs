//! `fsdp` of TrainingArguments, read as `parallel.fsdp`.

use traind_choices::Fsdp;

use crate::aliases::section_of;
use crate::node::{Entry, Node, Value};
use crate::problems::{ALIAS_USED, Problems};

const OLD: &str = "train.fsdp";
const NEW: &str = "parallel.fsdp";

/// Meaning of the Trainer's words for FSDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharding {
    /// The value of `parallel.fsdp`.
    pub fsdp: Fsdp,
    /// Whether state is kept in host memory. That is done for the optimizer's state alone.
    pub offload: bool,
}

/// Reads the Trainer's words, such as `full_shard auto_wrap offload`. Every layer is gathered by
/// itself, so `auto_wrap` adds nothing.
pub fn fsdp_of_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<Sharding> {
    let (mut found, mut offload) = (None, false);
    for word in words.into_iter().filter(|word| *word != "auto_wrap") {
        let meant = match word {
            "full_shard" => Fsdp::FullShard,
            "shard_grad_op" => Fsdp::ShardGradOp,
            "hybrid_shard" => Fsdp::HybridShard,
            "hybrid_shard_zero2" => Fsdp::HybridShardZero2,
            "no_shard" => Fsdp::No,
            "offload" => {
                offload = true;
                continue;
            }
            _ => return None,
        };
        if found.replace(meant).is_some() {
            return None;
        }
    }
    Some(Sharding { fsdp: found?, offload })
}

/// Moves `train.fsdp` to `parallel` where it can be read; other values stay.
pub(super) fn apply(root: &mut Node, problems: &mut Problems) {
    let Some(train) = section_of(root, "train") else { return };
    let Some(at) = train.iter().position(|entry| entry.key == "fsdp") else { return };
    let Some(Sharding { fsdp, offload }) = sharding(&train[at].node.value) else { return };
    let mut entry = train.remove(at);
    if has_key(root, "fsdp") {
        problems.violation(OLD, format!("is an alias of `{NEW}`; set only one of the two"));
        return;
    }
    problems.warning(ALIAS_USED, OLD, format!("is read as `{NEW}: {fsdp}`"));
    problems.renamed(OLD, NEW);
    entry.node.value = Value::Text(fsdp.to_string());
    insert(root, "parallel", "fsdp", entry.node.value);
    if offload {
        keep_on_host(root, OLD, problems);
    }
}

/// Keeps the optimizer's state in host memory, which is a part of what FSDP's offloading does.
pub(super) fn keep_on_host(root: &mut Node, path: &str, problems: &mut Problems) {
    let text =
        "is read as `parallel.offload: optimizer`; parameters and gradients stay on the cores";
    problems.warning(ALIAS_USED, path, text);
    if !has_key(root, "offload") {
        insert(root, "parallel", "offload", Value::Text("optimizer".to_owned()));
    }
}

fn sharding(value: &Value) -> Option<Sharding> {
    match value {
        Value::Bool(is_on) => {
            let fsdp = if *is_on { Fsdp::FullShard } else { Fsdp::No };
            Some(Sharding { fsdp, offload: false })
        }
        Value::Text(text) => fsdp_of_words(text.split_whitespace()),
        Value::List(nodes) => {
            let word = |node: &Node| match &node.value {
                Value::Text(text) => Some(text.clone()),
                _ => None,
            };
            let words: Vec<String> = nodes.iter().map(word).collect::<Option<_>>()?;
            fsdp_of_words(words.iter().map(String::as_str))
        }
        _ => None,
    }
}

fn has_key(root: &mut Node, key: &str) -> bool {
    section_of(root, "parallel").is_some_and(|keys| keys.iter().any(|entry| entry.key == key))
}

/// Changes `full_shard` and `hybrid_shard`, which gather parameters again in the backward pass, to `shard_grad_op` and
/// `hybrid_shard_zero2`.
pub(super) fn keep_parameters(root: &mut Node) {
    let Some(parallel) = section_of(root, "parallel") else { return };
    for entry in parallel.iter_mut().filter(|entry| entry.key == "fsdp") {
        for (from, to) in
            [(Fsdp::FullShard, Fsdp::ShardGradOp), (Fsdp::HybridShard, Fsdp::HybridShardZero2)]
        {
            if entry.node.value == Value::Text(from.to_string()) {
                entry.node.value = Value::Text(to.to_string());
            }
        }
    }
}

/// Adds a key to a section, which is made if there is none.
pub(super) fn insert(root: &mut Node, section: &str, key: &str, value: Value) {
    let entry = Entry { key: key.to_owned(), key_at: None, node: Node { value, at: None } };
    if let Some(keys) = section_of(root, section) {
        keys.push(entry);
    } else if let Value::Map(sections) = &mut root.value {
        sections.retain(|found| found.key != section);
        let node = Node { value: Value::Map(vec![entry]), at: None };
        sections.push(Entry { key: section.to_owned(), key_at: None, node });
    }
}
