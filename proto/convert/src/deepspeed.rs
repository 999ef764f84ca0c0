//! Settings that name a file of DeepSpeed's or of FSDP's, which job files take as a mapping.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::draft::Draft;

/// Puts the content of files in the place of their names. `read` returns the text of a file; files of
/// DeepSpeed that tools publish, such as `zero2.json`, are known by their names, too.
pub(crate) fn open(
    settings: &mut Map<String, Value>,
    read: &dyn Fn(&Path) -> Option<String>,
    draft: &mut Draft,
) {
    for key in ["deepspeed", "fsdp_config"] {
        let Some(name) = settings.get(key).and_then(file_name) else { continue };
        let content = match read(Path::new(&name)) {
            Some(text) => match serde_json::from_str(&text) {
                Ok(Value::Object(content)) => {
                    draft.note(key, format!("the content of {name}"));
                    Value::Object(content)
                }
                _ => return draft.refuse(key, format!("{name} holds no JSON mapping")),
            },
            None => match published(&name).filter(|_| key == "deepspeed") {
                Some(zero) => {
                    let text = format!("{name} is not here; its name says {zero}");
                    draft.note(key, text);
                    json!({"zero_optimization": zero})
                }
                None => continue,
            },
        };
        settings.insert(key.to_owned(), content);
    }
}

/// The name of a file; a mapping may be given as JSON text.
fn file_name(value: &Value) -> Option<String> {
    value.as_str().filter(|text| text.ends_with(".json")).map(str::to_owned)
}

/// The stage of ZeRO in a file's name, and the part of the state in host memory.
fn published(name: &str) -> Option<Value> {
    let stem = Path::new(name).file_stem()?.to_str()?.to_lowercase();
    let words: Vec<&str> = stem.split(['_', '-']).collect();
    let stage = words.iter().find_map(|word| {
        let stage = word.strip_prefix("zero").or_else(|| word.strip_prefix('z'))?;
        stage.parse::<u64>().ok().filter(|stage| *stage <= 3)
    })?;
    let mut zero = json!({"stage": stage});
    let offloads = words.iter().any(|word| word.contains("offload"));
    if offloads {
        let all = words.contains(&"all");
        let part = if words.contains(&"params") { "offload_param" } else { "offload_optimizer" };
        zero[part] = json!({"device": "cpu"});
        if all {
            zero["offload_param"] = json!({"device": "cpu"});
        }
    }
    Some(zero)
}
