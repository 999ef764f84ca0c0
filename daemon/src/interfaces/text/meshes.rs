//! Meshes that the planner compared.

use traind_proto::v1;

use super::bytes;

const HOURS_PER_DAY: f64 = 24.0;

/// The settings of a planned mesh besides the sizes of its axes: "8 x 2, full_shard, recomputed".
pub(crate) fn mesh_settings(mesh: &v1::MeshPlan) -> String {
    let batch =
        format!("{} x {}", mesh.per_device_train_batch_size, mesh.gradient_accumulation_steps);
    let sharded = (mesh.fsdp != "no").then_some(mesh.fsdp.as_str());
    let positions = mesh.sequence_parallel.then_some("positions");
    let recomputed = mesh.gradient_checkpointing.then_some("recomputed");
    let parts = (mesh.pipeline > 1).then(|| format!("{} parts", mesh.microbatches));
    let chunks =
        (mesh.pipeline_interleave > 1).then(|| format!("interleave {}", mesh.pipeline_interleave));
    let words =
        [Some(batch.as_str()), parts.as_deref(), chunks.as_deref(), sharded, positions, recomputed];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The cost of the whole job on the first of these meshes, and the memory that a faster one needs, where they are
/// known.
pub(crate) fn mesh_notes(meshes: &[v1::MeshPlan]) -> Vec<String> {
    meshes.first().and_then(cost).into_iter().chain(faster(meshes)).collect()
}

/// The whole job on the first mesh, where its steps are known.
fn cost(first: &v1::MeshPlan) -> Option<String> {
    if first.hours == 0.0 {
        return None;
    }
    let days = first.hours / HOURS_PER_DAY;
    let price =
        if first.price > 0.0 { format!(", price {:.2}", first.price) } else { String::new() };
    Some(format!("whole job: {:.1} h, {days:.1} days{price}", first.hours))
}

/// The memory with which another mesh would come first.
fn faster(meshes: &[v1::MeshPlan]) -> Option<String> {
    let first = meshes.first()?;
    let is_faster = |it: &&v1::MeshPlan| !it.fits && it.step_seconds < first.step_seconds;
    let next = meshes.iter().filter(is_faster).min_by_key(|it| it.bytes_per_core)?;
    Some(format!(
        "with {} per core: data {}, tensor {}, pipeline {}, {}, {:.3} s a step",
        bytes(next.bytes_per_core),
        next.data,
        next.tensor,
        next.pipeline,
        mesh_settings(next),
        next.step_seconds
    ))
}
