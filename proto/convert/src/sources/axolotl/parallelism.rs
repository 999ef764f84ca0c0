//! axolotl's keys of the mesh: cores that share weights, copies of them, and layers that cores share.

use serde_json::{Map, Value};

use crate::draft::Draft;
use crate::sources::examples::LAUNCHED;
use crate::values::is_off;

pub(super) fn read(settings: &Map<String, Value>, draft: &mut Draft) {
    let is_on = |key: &str| settings.get(key).is_some_and(|value| !is_off(value));
    let size = |key: &str| settings.get(key).and_then(Value::as_u64).unwrap_or(1).max(1);
    let has_fsdp = is_on("fsdp") || is_on("fsdp_version") || is_on("fsdp_config");
    let (copies, shards) = (size("dp_replicate_size"), size("dp_shard_size"));
    match (has_fsdp, copies) {
        (true, 2..) => copies_of_shards(copies, shards * size("tensor_parallel_size"), draft),
        (true, _) if is_on("fsdp_version") && !is_on("fsdp") => {
            draft.set("parallel.fsdp", "full_shard".into(), "fsdp_version");
        }
        (false, 2..) => {
            draft.note("dp_replicate_size", "dropped: parallel.data is what the other axes leave")
        }
        _ => {}
    }
    if shards > 1 && copies == 1 {
        draft.note("dp_shard_size", "dropped: parallel.data is what the other axes leave");
    }
}

/// Each host has one copy of the weights, which its cores share.
fn copies_of_shards(copies: u64, cores: u64, draft: &mut Draft) {
    const KEY: &str = "dp_replicate_size";
    draft.set("parallel.fsdp", "hybrid_shard".into(), KEY);
    if cores > 1 {
        draft.note(
            KEY,
            format!("each of {copies} hosts with {cores} cores has a copy of the weights"),
        );
        draft.imply("resources.cores", cores);
    } else {
        draft.note(KEY, format!("each of {copies} hosts has a copy of the weights; give its resources.cores by --set"));
    }
    if draft.get("resources.hosts").is_none() {
        draft.set("resources.hosts", copies.into(), KEY);
        if draft.get("resources.engine").is_none() {
            draft.note("resources.hosts", LAUNCHED);
        }
    }
}
