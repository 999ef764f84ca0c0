//! Indices that may be outside of a tensor. Elsewhere a gather clamps and a scatter drops them; NeuronCores fail.

use super::Problem;
use super::program::Instruction;
use super::range::Ranges;

const OUTSIDE: &str = "NRT_EXEC_OOB";

pub(super) fn check(instruction: &Instruction, ranges: &Ranges) -> Vec<Problem> {
    let constant = match instruction.name() {
        "gather" => "NCC_EVRF056",
        "scatter" => "NCC_EVRF031",
        "dynamic_slice" | "dynamic_update_slice" => "NCC_ESMP002",
        _ => return Vec::new(),
    };
    let found = indexed(instruction).into_iter().filter_map(|(operand, greatest)| {
        let range = ranges.get(&operand)?;
        if range.least >= 0 && range.greatest <= i128::from(greatest) {
            return None;
        }
        let (least, most) = (range.least, range.greatest);
        Some(match range.is_constant {
            true => (constant, format!("an index from {least} to {most}, of at most {greatest}")),
            false => (
                OUTSIDE,
                format!("an index that is not clamped to 0 to {greatest} comes from data"),
            ),
        })
    });
    found.take(1).collect()
}

/// The operands that are indices, each with the greatest that it may have.
fn indexed(instruction: &Instruction) -> Vec<(String, u64)> {
    let (operands, types) = (&instruction.operands, &instruction.operand_types);
    let Some(table) = types.first() else { return Vec::new() };
    let sizes = |name: &str| -> Vec<u64> {
        let found = instruction.integers(name).unwrap_or_default().concat();
        found.into_iter().map(|size| size.max(0) as u64).collect()
    };
    let last = |axis: usize, size: u64| table.dims.get(axis).map(|dim| dim.saturating_sub(size));
    match instruction.name() {
        "gather" => {
            let (sizes, axes) = (sizes("slice_sizes"), sizes("start_index_map"));
            of_axes(operands.get(1), &axes, |axis| {
                last(axis, sizes.get(axis).copied().unwrap_or(1))
            })
        }
        "scatter" => {
            let axes = sizes("scatter_dims_to_operand_dims");
            let windows = windows(instruction, table.dims.len());
            of_axes(operands.get(1), &axes, |axis| last(axis, *windows.get(axis)?))
        }
        "dynamic_slice" => {
            let sizes = instruction.result().dims;
            let starts = operands.iter().skip(1).enumerate();
            starts
                .filter_map(|(axis, it)| Some((it.clone(), last(axis, *sizes.get(axis)?)?)))
                .collect()
        }
        _ => {
            let sizes = types.get(1).map(|it| it.dims.clone()).unwrap_or_default();
            let starts = operands.iter().skip(2).enumerate();
            starts
                .filter_map(|(axis, it)| Some((it.clone(), last(axis, *sizes.get(axis)?)?)))
                .collect()
        }
    }
}

/// The sizes of a scatter's updates along the axes of its operand, of which it has those that are not inserted.
fn windows(instruction: &Instruction, rank: usize) -> Vec<u64> {
    let axes = |name: &str| instruction.integers(name).unwrap_or_default().concat();
    let inserted = [axes("inserted_window_dims"), axes("input_batching_dims")].concat();
    let updates = instruction.operand_types.last().map(|it| it.dims.clone()).unwrap_or_default();
    let mut sizes = axes("update_window_dims").into_iter().map(|axis| {
        let size = usize::try_from(axis).ok().and_then(|axis| updates.get(axis));
        size.copied().unwrap_or(1)
    });
    let size = |axis| if inserted.contains(&(axis as i64)) { 1 } else { sizes.next().unwrap_or(1) };
    (0..rank).map(size).collect()
}

/// One tensor of indices into several axes: the shortest bounds all of them.
fn of_axes(
    indices: Option<&String>,
    axes: &[u64],
    last: impl Fn(usize) -> Option<u64>,
) -> Vec<(String, u64)> {
    let greatest = axes.iter().filter_map(|axis| last(*axis as usize)).min();
    indices
        .zip(greatest)
        .map(|(indices, greatest)| (indices.clone(), greatest))
        .into_iter()
        .collect()
}
