//! Files that other versions wrote.

use serde_json::Value;

/// Returns whether `now` has all that `kept` has. A later version may have more.
pub fn contains(now: &Value, kept: &Value) -> bool {
    match (now, kept) {
        (Value::Object(now), Value::Object(kept)) => {
            kept.iter().all(|(key, kept)| now.get(key).is_some_and(|now| contains(now, kept)))
        }
        (Value::Array(now), Value::Array(kept)) => {
            now.len() == kept.len() && now.iter().zip(kept).all(|(now, kept)| contains(now, kept))
        }
        (now, kept) => now == kept,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_later_version_may_have_more_keys_and_no_other_values() {
        let kept = json!({"a": 1, "b": [{"c": null}]});
        assert!(contains(&json!({"a": 1, "b": [{"c": null, "d": 2}], "e": 3}), &kept));
        for lacking in [
            json!({"a": 1}),
            json!({"a": 2, "b": [{"c": null}]}),
            json!({"a": 1, "b": [{}]}),
            json!({"a": 1, "b": [{"c": null}, 1]}),
        ] {
            assert!(!contains(&lacking, &kept), "{lacking}");
        }
    }
}
