//! Old and alternative names of keys: read as today's, with a warning.

use crate::node::{Entry, Node, Value};
use crate::problems::{ALIAS_USED, FIELD_UNUSED, Problems, join};

/// How the value of an old key becomes that of the new one.
enum Meaning {
    /// It stays as it is.
    Same,
    /// It stays, and must be a share below 1: from 1 on it would count steps.
    Ratio,
    /// True stands for `group_by_length`, false for `random`.
    GroupByLength,
    /// True stands for a list of `activations`.
    Activations,
}

/// Section, old key, today's key.
const ALIASES: &[(&str, &str, &str, Meaning)] = &[
    ("model", "model_name_or_path", "name_or_path", Meaning::Same),
    ("model", "model_revision", "revision", Meaning::Same),
    ("dpo", "ref_model", "ref_model_name_or_path", Meaning::Same),
    ("kto", "ref_model", "ref_model_name_or_path", Meaning::Same),
    ("data", "train_file", "train", Meaning::Same),
    ("data", "validation_file", "validation", Meaning::Same),
    ("data", "test_file", "test", Meaning::Same),
    ("data", "text_column_name", "text", Meaning::Same),
    ("data", "label_column_name", "label", Meaning::Same),
    ("data", "text_column", "text", Meaning::Same),
    ("data", "label_column", "label", Meaning::Same),
    ("data", "max_seq_length", "max_length", Meaning::Same),
    ("parallel", "pipeline_parallel_degree", "pipeline", Meaning::Same),
    ("parallel", "partitions", "pipeline", Meaning::Same),
    ("embedding", "similarity_fct", "similarity", Meaning::Same),
    ("embedding", "triplet_margin", "margin", Meaning::Same),
    ("train", "per_gpu_train_batch_size", "per_device_train_batch_size", Meaning::Same),
    ("train", "per_gpu_eval_batch_size", "per_device_eval_batch_size", Meaning::Same),
    ("train", "evaluation_strategy", "eval_strategy", Meaning::Same),
    ("train", "activation_checkpointing", "gradient_checkpointing", Meaning::Same),
    ("train", "warmup_ratio", "warmup_steps", Meaning::Ratio),
    ("parallel", "tensor_parallel_degree", "tensor", Meaning::Same),
    ("parallel", "tensor_model_parallel_size", "tensor", Meaning::Same),
    ("parallel", "sequence_parallel_enabled", "sequence_parallel", Meaning::Same),
    ("parallel", "placement_strategy", "placement", Meaning::Same),
    ("parallel", "offload_activations", "offload", Meaning::Activations),
    ("train", "group_by_length", "train_sampling_strategy", Meaning::GroupByLength),
];

/// Section, key of SageMaker's model-parallel library or of sentence-transformers, and why it changes nothing here.
const WITHOUT_EFFECT: &[(&str, &str, &str)] = &[
    (
        "embedding",
        "gather_across_devices",
        "losses that compare rows compare those of all cores in any case",
    ),
    ("embedding", "show_progress_bar", "a runner shows no bar; `traind watch` does"),
    (
        "parallel",
        "ddp",
        "the cores that `tensor` and `pipeline` leave are data-parallel in any case",
    ),
    (
        "parallel",
        "active_microbatches",
        "a stage has at most as many micro-batches in flight as there are stages",
    ),
];

/// Every old key and today's, with their section.
pub(crate) fn keys() -> impl Iterator<Item = (String, String)> {
    ALIASES.iter().map(|(section, old, new, _)| (join(section, old), join(section, new)))
}

/// Every key that is read and has no effect, with the reason.
pub(crate) fn keys_without_effect() -> impl Iterator<Item = (String, &'static str)> {
    WITHOUT_EFFECT.iter().map(|(section, key, reason)| (join(section, key), *reason))
}

/// Renames the old keys of a document, and takes out those that have no effect.
pub(crate) fn apply(root: &mut Node, problems: &mut Problems) {
    spell_out_auto(root);
    for (section, key, reason) in WITHOUT_EFFECT {
        if let Some(entries) = section_of(root, section) {
            drop_unused(entries, &join(section, key), key, reason, problems);
        }
    }
    for (section, old, new, meaning) in ALIASES {
        if let Some(entries) = section_of(root, section) {
            rename(entries, section, old, new, meaning, problems);
        }
    }
}

/// Reads `parallel: auto` as `parallel: {auto: true}`.
fn spell_out_auto(root: &mut Node) {
    let Value::Map(sections) = &mut root.value else { return };
    let parallel = sections.iter_mut().find(|entry| entry.key == "parallel");
    if let Some(Entry { node, .. }) = parallel
        && node.value == Value::Text("auto".to_owned())
    {
        let auto = Node { value: Value::Bool(true), at: node.at };
        node.value =
            Value::Map(vec![Entry { key: "auto".to_owned(), key_at: node.at, node: auto }]);
    }
}

/// The keys of a section of a document; none where it is absent or no mapping.
pub(crate) fn section_of<'a>(root: &'a mut Node, name: &str) -> Option<&'a mut Vec<Entry>> {
    let Value::Map(sections) = &mut root.value else {
        return None;
    };
    let section = sections.iter_mut().find(|entry| entry.key == name)?;
    match &mut section.node.value {
        Value::Map(entries) => Some(entries),
        _ => None,
    }
}

/// Takes a key out of its section, with a warning.
fn drop_unused(
    entries: &mut Vec<Entry>,
    path: &str,
    key: &str,
    reason: &str,
    problems: &mut Problems,
) {
    let count = entries.len();
    entries.retain(|entry| entry.key != key);
    if entries.len() < count {
        problems.warning(FIELD_UNUSED, path, format!("has no effect: {reason}"));
    }
}

fn rename(
    entries: &mut Vec<Entry>,
    section: &str,
    old: &str,
    new: &str,
    meaning: &Meaning,
    problems: &mut Problems,
) {
    let Some(at) = entries.iter().position(|entry| entry.key == old) else {
        return;
    };
    let path = join(section, old);
    if entries.iter().any(|entry| entry.key == new) {
        problems.violation(&path, format!("is an alias of `{new}`; set only one of the two"));
        entries.remove(at);
    } else if let Err(wanted) = convert(&mut entries[at].node.value, meaning) {
        let found = entries[at].node.value.describe();
        problems.violation(&path, format!("must be {wanted}, not {found}"));
        entries.remove(at);
    } else {
        entries[at].key = new.to_owned();
        problems.warning(ALIAS_USED, &path, format!("is read as `{new}`"));
        problems.renamed(&path, &join(section, new));
    }
}

/// Makes a value the new key's, or says what it should have been.
fn convert(value: &mut Value, meaning: &Meaning) -> Result<(), &'static str> {
    match (meaning, &*value) {
        (Meaning::Same, _) => Ok(()),
        (Meaning::Ratio, Value::Integer(0)) => Ok(()),
        (Meaning::Ratio, Value::Float(ratio)) if (0.0..1.0).contains(ratio) => Ok(()),
        (Meaning::Ratio, _) => Err("at least 0 and below 1"),
        (Meaning::GroupByLength, Value::Bool(grouped)) => {
            let strategy = if *grouped { "group_by_length" } else { "random" };
            *value = Value::Text(strategy.to_owned());
            Ok(())
        }
        (Meaning::Activations, Value::Bool(offloaded)) => {
            *value = match offloaded {
                true => Value::Text("activations".to_owned()),
                false => Value::List(Vec::new()),
            };
            Ok(())
        }
        (Meaning::GroupByLength | Meaning::Activations, _) => Err("true or false"),
    }
}
