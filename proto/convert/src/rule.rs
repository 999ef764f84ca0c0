//! Rules of keys, which tables have.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::Value;

/// Why a value has no counterpart in a job file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueProblem {
    #[error("must be at least 0 and below 1, not {found}")]
    NotAShare { found: String },
    #[error("`{pair}` is not KEY=VALUE")]
    NotAPair { pair: String },
    #[error(
        "must be full_shard, shard_grad_op, hybrid_shard or hybrid_shard_zero2, with or without \
         auto_wrap and offload, not {found}"
    )]
    NoShards { found: String },
    #[error("must have a text for each column, as data.prompts has: {{question: \"query: \"}}")]
    NoPrompts,
    #[error("must have a learning rate for each pattern")]
    NoRates,
    #[error("`{found}` is not a known place of metrics; {advice}")]
    NoTracker { found: String, advice: String },
}

/// A changed value, or the reason why there is none.
pub(crate) type Change = fn(&Value) -> Result<Value, ValueProblem>;

/// Treatment of a key.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// A field of the job file, with the same value.
    Field(&'static str),
    /// A field with another value, and why.
    Changed(&'static str, Change, &'static str),
    /// A field and its value where the key is on; nothing where it is off.
    Switch(&'static str, &'static Value),
    /// Nothing, and why: the result is the same without it.
    Dropped(&'static str),
    /// It cannot be had, and what to use instead; values that switch it off are passed over.
    Refused(&'static str),
    /// The source looks at it by itself.
    Own,
}

pub(crate) type Table = &'static [(&'static str, Rule)];

/// The least similarity of a key that an unknown one may stand for, from 0 to 1: tools have hundreds of keys.
const SIMILARITY_MIN: f64 = 0.7;

/// Names of one setting in two tools.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("lora_r", "lora_rank"),
    ("lora_target_modules", "lora_target"),
    ("lora_modules_to_save", "additional_target"),
    ("sequence_len", "cutoff_len"),
    ("base_model", "model_name_or_path"),
    ("val_set_size", "val_size"),
    ("micro_batch_size", "per_device_train_batch_size"),
    ("num_epochs", "num_train_epochs"),
];

/// Why a key is refused that a tool's files do not have, with the one of `known` that it may stand for.
pub(crate) fn unknown<'key>(
    key: &str,
    known: impl IntoIterator<Item = &'key str>,
    advice: &str,
) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let other = OTHER_NAMES.iter().flat_map(|(one, other)| [(one, other), (other, one)]);
    let mut other = other.filter(|(name, own)| **name == key && known.contains(own));
    if let Some((_, own)) = other.next() {
        return format!("is another tool's name for `{own}`");
    }
    match nearest(key, known) {
        Some(nearest) => format!("is not known here; did you mean `{nearest}`?"),
        None => format!("is not known here; {advice}"),
    }
}

/// The one of `known` that a misspelled word may stand for.
pub(crate) fn nearest<'word>(
    word: &str,
    known: impl IntoIterator<Item = &'word str>,
) -> Option<&'word str> {
    traind_job_file::nearest_key(word, known.into_iter(), SIMILARITY_MIN)
}

/// The keys of tables.
pub(crate) fn keys(tables: &[Table]) -> impl Iterator<Item = &'static str> {
    tables.iter().copied().flatten().map(|(key, _)| *key)
}

/// The fields of the job file.
static FIELDS: LazyLock<BTreeSet<String>> =
    LazyLock::new(|| traind_job_file::fields().into_iter().map(|field| field.path).collect());

/// The keys of section `train` of the job file.
pub(crate) fn train_keys() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().filter_map(|path| path.strip_prefix("train."))
}

/// Whether the job file has a field.
pub(crate) fn is_field(path: &str) -> bool {
    FIELDS.contains(path)
}
