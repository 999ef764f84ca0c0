//! The table of meshes that `traind plan --auto` prints.

use traind_proto::v1;

use crate::interfaces::text;

/// A line for each mesh, and notes about them.
pub(super) fn lines(meshes: &[v1::MeshPlan]) -> Vec<String> {
    if meshes.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![header()];
    lines.extend(meshes.iter().map(line));
    lines.extend(text::mesh_notes(meshes));
    lines
}

/// A mesh for programs to read.
pub(super) fn json(mesh: &v1::MeshPlan) -> serde_json::Value {
    serde_json::json!({
        "data": mesh.data,
        "tensor": mesh.tensor,
        "pipeline": mesh.pipeline,
        "pipeline_interleave": mesh.pipeline_interleave,
        "microbatches": mesh.microbatches,
        "sequence_parallel": mesh.sequence_parallel,
        "fsdp": mesh.fsdp,
        "gradient_checkpointing": mesh.gradient_checkpointing,
        "per_device_train_batch_size": mesh.per_device_train_batch_size,
        "gradient_accumulation_steps": mesh.gradient_accumulation_steps,
        "bytes_per_core": mesh.bytes_per_core,
        "weights_bytes": mesh.weights_bytes,
        "gradients_bytes": mesh.gradients_bytes,
        "optimizer_bytes": mesh.optimizer_bytes,
        "activations_bytes": mesh.activations_bytes,
        "fits": mesh.fits,
        "step_seconds": mesh.step_seconds,
        "rows_per_second": mesh.rows_per_second,
        "hours": mesh.hours,
        "price": mesh.price,
    })
}

fn header() -> String {
    let of_core = ["per core", "weights", "gradients", "optimizer", "activations"];
    let of_core: String = of_core.iter().map(|name| format!("{name:>12}")).collect();
    format!(
        "{:>4} {:>6} {:>8}  {:<68}{:>10}{:>10}{:>6}{:>6}{of_core}{:>12}{:>12}{:>14}",
        "data",
        "tensor",
        "pipeline",
        "settings",
        "step",
        "rows/s",
        "comm",
        "idle",
        "over data",
        "over tensor",
        "over pipeline"
    )
}

fn line(mesh: &v1::MeshPlan) -> String {
    let of_core = [
        mesh.bytes_per_core,
        mesh.weights_bytes,
        mesh.gradients_bytes,
        mesh.optimizer_bytes,
        mesh.activations_bytes,
    ];
    let of_core: String =
        of_core.iter().map(|size| format!("{:>12}", text::bytes(*size))).collect();
    let share = |seconds: f64| 100.0 * seconds / mesh.step_seconds;
    let unfit = if mesh.fits { "" } else { "  does not fit" };
    let unfit = format!("{}{unfit}", if mesh.compiled { "  compiled" } else { "" });
    format!(
        "{:>4} {:>6} {:>8}  {:<68}{:>9.3}s{:>10.1}{:>5.0}%{:>5.0}%{of_core}{:>12}{:>12}{:>14}{unfit}",
        mesh.data,
        mesh.tensor,
        mesh.pipeline,
        text::mesh_settings(mesh),
        mesh.step_seconds,
        mesh.rows_per_second,
        share(mesh.communication_seconds),
        share(mesh.idle_seconds),
        text::bytes(mesh.data_axis_bytes),
        text::bytes(mesh.tensor_axis_bytes),
        text::bytes(mesh.pipeline_axis_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(step_seconds: f64, bytes_per_core: u64, fits: bool) -> v1::MeshPlan {
        v1::MeshPlan {
            data: 4,
            tensor: 2,
            pipeline: 2,
            pipeline_interleave: 2,
            microbatches: 8,
            sequence_parallel: true,
            fsdp: "full_shard".to_owned(),
            per_device_train_batch_size: 8,
            gradient_accumulation_steps: 2,
            bytes_per_core,
            fits,
            step_seconds,
            communication_seconds: step_seconds / 4.0,
            idle_seconds: step_seconds / 8.0,
            hours: 48.0,
            price: 96.0,
            ..v1::MeshPlan::default()
        }
    }

    #[test]
    fn meshes_are_lines_with_the_cost_of_the_first_and_what_a_faster_one_needs() {
        let found = lines(&[mesh(2.0, 1 << 30, true), mesh(1.0, 4 << 30, false)]);
        assert!(
            found[1].contains("8 x 2, 8 parts, interleave 2, full_shard, positions"),
            "{found:?}"
        );
        assert!(found[1].contains("2.000s") && found[1].contains("25%   12%"), "{found:?}");
        assert!(found[2].ends_with("does not fit"), "{found:?}");
        assert_eq!(found[3], "whole job: 48.0 h, 2.0 days, price 96.00");
        let expect = "with 4.0 GiB per core: data 4, tensor 2, pipeline 2, 8 x 2, 8 parts, interleave 2, \
                      full_shard, positions, 1.000 s a step";
        assert_eq!(found[4], expect);
        assert!(lines(&[]).is_empty());
    }
}
