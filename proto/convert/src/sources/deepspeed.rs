//! DeepSpeed's JSON files that settings name: the file that is there, or the one of this name that the
//! tool ships.

use std::path::Path;

use serde_json::{Map, Value};

use crate::draft::Draft;
use crate::values::is_off;

const KEY: &str = "deepspeed";

/// Files of axolotl and LLaMA-Factory, without their ending, with ZeRO's stage and what they offload.
const SHIPPED: &[(&str, &str, Offload)] = &[
    ("zero1", "shard_optimizer", Offload::Nothing),
    ("zero1_torch_compile", "shard_optimizer", Offload::Nothing),
    ("zero2", "shard_grad_op", Offload::Nothing),
    ("zero2_torch_compile", "shard_grad_op", Offload::Nothing),
    ("zero3", "full_shard", Offload::Nothing),
    ("zero3_bf16", "full_shard", Offload::Nothing),
    ("zero3_bf16_cpuoffload_params", "full_shard", Offload::Parameters),
    ("zero3_bf16_cpuoffload_all", "full_shard", Offload::All),
    ("ds_z0_config", "no", Offload::Nothing),
    ("ds_z2_config", "shard_grad_op", Offload::Nothing),
    ("ds_z2_offload_config", "shard_grad_op", Offload::Optimizer),
    ("ds_z3_config", "full_shard", Offload::Nothing),
    ("ds_z3_offload_config", "full_shard", Offload::All),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Offload {
    Nothing,
    Optimizer,
    Parameters,
    All,
}

/// Puts the content of a file in the place of its name, or sets the fields of a file that a tool ships
/// and takes the key out. Another name stays, to be refused.
pub(crate) fn resolve(
    settings: &mut Map<String, Value>,
    ships_files: bool,
    read: &dyn Fn(&Path) -> Option<String>,
    draft: &mut Draft,
) {
    let Some(file) = settings.get(KEY).and_then(Value::as_str) else { return };
    if file.starts_with('{') || is_off(&settings[KEY]) {
        return;
    }
    let file = file.to_owned();
    let found = read(Path::new(&file));
    let content = found.as_deref().map(serde_json::from_str::<Map<String, Value>>);
    match content {
        Some(Ok(content)) => {
            settings.insert(KEY.to_owned(), content.into());
        }
        Some(Err(error)) => {
            settings.remove(KEY);
            draft.refuse(
                KEY,
                format!("{file} is no JSON: {error}; correct it, or leave the key out"),
            );
        }
        None if ships_files && shipped(&file, draft) => {
            settings.remove(KEY);
        }
        None => {}
    }
}

/// Whether the file's name is that of one that a tool ships, whose fields are set.
fn shipped(file: &str, draft: &mut Draft) -> bool {
    let name = file.rsplit('/').next().unwrap_or_default();
    let known = SHIPPED.iter().find(|(known, ..)| name.strip_suffix(".json") == Some(*known));
    let Some((name, fsdp, offload)) = known else { return false };
    draft.note(KEY, format!("{file} is not there; taken for the {name}.json that the tool ships"));
    draft.set("parallel.fsdp", (*fsdp).into(), KEY);
    if matches!(offload, Offload::Optimizer | Offload::All) {
        draft.set("parallel.offload", serde_json::json!(["optimizer"]), KEY);
    }
    if matches!(offload, Offload::Parameters | Offload::All) {
        draft.note(KEY, "parameters stay on the cores, where the file moves them to host memory");
    }
    true
}
