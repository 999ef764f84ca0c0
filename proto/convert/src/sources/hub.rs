//! Data sets of the hub under the short names that examples have for them.

use crate::shared::TABLES;

/// A name without an organization that no example uses.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is not an id of the hub such as `org/name`; give data.train by --set")]
pub(crate) struct NotAnId {
    name: String,
}

/// The id of a data set.
pub(crate) fn data_set(name: &str) -> Result<String, NotAnId> {
    if name.contains('/') {
        return Ok(name.to_owned());
    }
    let known = TABLES.data_sets.get(name).cloned();
    known.ok_or_else(|| NotAnId { name: name.to_owned() })
}

/// The id of a data set, or its URL if a revision or files of it follow.
pub(crate) fn address(name: &str, revision: &str, has_files: bool) -> Result<String, NotAnId> {
    let id = data_set(name)?;
    Ok(match revision {
        "" if !has_files => id,
        "" => format!("hf://datasets/{id}"),
        revision => format!("hf://datasets/{id}@{revision}"),
    })
}

/// Whether text names files rather than a data set of the hub.
pub(crate) fn is_file(name: &str) -> bool {
    const ENDS: [&str; 8] =
        [".csv", ".tsv", ".json", ".jsonl", ".parquet", ".arrow", ".txt", ".gz"];
    name.starts_with(['.', '/'])
        || name.contains("://")
        || ENDS.iter().any(|end| name.ends_with(end))
}
