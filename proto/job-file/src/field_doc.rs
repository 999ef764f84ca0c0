//! The documentation of a field.

/// A field of the job file, as its documentation shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldDoc {
    /// "train.learning_rate".
    pub path: String,
    /// "number", "text", or the values of an enumeration: "`no`, `steps`, `epoch`".
    pub type_name: String,
    /// True if it must be given.
    pub required: bool,
    /// The default; `None` if there is none.
    pub default: Option<String>,
    /// "at least 1"; `None` if every value of the type is allowed.
    pub range: Option<String>,
    /// The description.
    pub doc: String,
}
