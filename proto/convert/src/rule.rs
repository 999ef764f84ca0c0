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

/// The fields of the job file.
static FIELDS: LazyLock<BTreeSet<String>> =
    LazyLock::new(|| traind_job_file::fields().into_iter().map(|field| field.path).collect());

/// Whether the job file has a field.
pub(crate) fn is_field(path: &str) -> bool {
    FIELDS.contains(path)
}
