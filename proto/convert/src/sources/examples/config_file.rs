//! accelerate's `--config_file`, whose keys are the options of `accelerate launch`.

use std::path::Path;

use serde_json::{Map, Value};

use super::Files;
use super::environment::platform;
use crate::Refused;
use crate::draft::Draft;
use crate::values::{is_off, shown};

const OPTION: &str = "config_file";

/// Adds the options of the file that the command line does not have itself.
pub(super) fn read(
    options: &mut Map<String, Value>,
    files: Files,
    draft: &mut Draft,
) -> Result<(), Refused> {
    let Some(name) = options.get(OPTION).map(shown) else { return Ok(()) };
    let Some(text) = files(Path::new(&name)) else { return Ok(()) };
    let settings: Value = serde_saphyr::from_str(&text)
        .map_err(|error| Refused::because(OPTION, format!("{name} is no YAML: {error}")))?;
    let Value::Object(settings) = settings else {
        return Err(Refused::because(OPTION, format!("{name} is no mapping of keys to values")));
    };
    options.remove(OPTION);
    let kind = settings.get("distributed_type").map(shown).unwrap_or_default();
    match kind.to_uppercase().as_str() {
        "FSDP" => add(options, "use_fsdp", &true.into()),
        "DEEPSPEED" => add(options, "use_deepspeed", &true.into()),
        "MEGATRON_LM" => {
            let advice = "MEGATRON_LM is not converted; set parallel.tensor and parallel.pipeline";
            draft.refuse("distributed_type", advice);
        }
        _ => {}
    }
    if kind.to_uppercase() == "MULTI_GPU" {
        platform("cuda", "distributed_type", draft);
    }
    if settings.get("use_cpu").is_some_and(|value| !is_off(value)) {
        platform("cpu", "use_cpu", draft);
    }
    let counts = ["num_processes", "num_machines", "mixed_precision"];
    for (key, value) in settings.iter().filter(|(key, _)| counts.contains(&key.as_str())) {
        add(options, key, value);
    }
    for section in ["fsdp_config", "deepspeed_config"] {
        for (key, value) in settings.get(section).and_then(Value::as_object).into_iter().flatten() {
            add(options, key, value);
        }
    }
    check_file(options, draft);
    Ok(())
}

fn add(options: &mut Map<String, Value>, key: &str, value: &Value) {
    if !value.is_null() && !options.contains_key(key) {
        options.insert(key.to_owned(), value.clone());
    }
}

/// DeepSpeed's own file is another one.
fn check_file(options: &mut Map<String, Value>, draft: &mut Draft) {
    let key = "deepspeed_config_file";
    if options.get(key).is_some_and(|value| !is_off(value)) {
        let advice = "give the stage as zero_stage in the file, or parallel.fsdp by --set";
        draft.refuse(key, advice);
    }
}
