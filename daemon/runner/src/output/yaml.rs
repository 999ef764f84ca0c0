//! Texts in YAML.

/// Quotes a text as JSON does, which YAML contains.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
