//! axolotl's keys of precision, of which `bf16` is on where a file leaves all of them out.

use serde_json::{Map, Value};

use crate::draft::Draft;
use crate::values::{is_off, shown};

/// Keys for computing in a type with float32 weights beside it.
const MIXED: [(&str, &str); 3] =
    [("bf16", "train.bf16"), ("fp16", "train.fp16"), ("tf32", "train.tf32")];
/// Keys for weights in a type.
const WHOLE: [(&str, &str); 2] = [("bfloat16", "train.bf16"), ("float16", "train.fp16")];

pub(super) fn read(settings: &Map<String, Value>, draft: &mut Draft) {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value));
    for (key, path) in MIXED {
        match given(key).map(shown).as_deref() {
            None => continue,
            Some("auto") if key == "bf16" && given("fp16").is_some() => continue,
            Some("auto") => {
                draft.note(key, format!("auto: true is taken; set {path} to false for float32"))
            }
            Some(_) => {}
        }
        draft.set(path, true.into(), key);
    }
    for (key, path) in WHOLE {
        if given(key).is_some() {
            draft.note(
                key,
                "weights that are trained stay float32, and the step computes in the shorter type",
            );
            draft.set(path, true.into(), key);
        }
    }
    let is_said = ["bf16", "fp16", "bfloat16", "float16", "float32"];
    if !is_said.iter().any(|key| settings.get(*key).is_some_and(|value| !value.is_null())) {
        draft.note(
            "bf16",
            "axolotl's default `auto`: true is taken; set train.bf16 to false for float32",
        );
        draft.imply("train.bf16", true);
    }
}
