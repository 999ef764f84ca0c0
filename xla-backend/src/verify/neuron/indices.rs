//! Indices that may be outside of a tensor. Elsewhere a gather clamps and a scatter drops them; NeuronCores fail.

use super::Problem;
use super::program::{Form, Instruction, Module};
use super::range::Ranges;

const OUTSIDE: &str = "NRT_EXEC_OOB";

/// The operands of a form that are indices.
#[derive(Debug, Default)]
pub(super) struct Indexed {
    /// The code of a constant that is outside.
    constant: &'static str,
    /// The place of each operand, with the greatest index that it may have.
    operands: Vec<(usize, u64)>,
}

/// An index of an operation, and the greatest that is inside of its tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexBound {
    /// The name of the operation's first result.
    pub user: String,
    /// The name of the index or of the tensor of indices.
    pub index: String,
    /// Its type, such as `tensor<2xi32>`.
    pub kind: String,
    /// The greatest index whose element, or slice, is inside.
    pub greatest: u64,
}

/// The indices of the operations of a module, in their order: for a device that compares them while it computes.
pub fn index_bounds(text: &str) -> Vec<IndexBound> {
    let module = Module::parse(text);
    let of_forms: Vec<Indexed> = module.forms.iter().map(indexed).collect();
    let bounds = |instruction: &Instruction| -> Vec<IndexBound> {
        let types = &module.forms[instruction.form].operand_types;
        let bound = |(operand, greatest): &(usize, u64)| {
            Some(IndexBound {
                user: instruction.name.clone(),
                index: instruction.operands.get(*operand)?.clone(),
                kind: types.get(*operand)?.to_string(),
                greatest: *greatest,
            })
        };
        of_forms[instruction.form].operands.iter().filter_map(bound).collect()
    };
    module.instructions.iter().flat_map(bounds).collect()
}

pub(super) fn check(
    instruction: &Instruction,
    indexed: &Indexed,
    ranges: &Ranges,
) -> Option<Problem> {
    let constant = indexed.constant;
    indexed.operands.iter().find_map(|(operand, greatest)| {
        let range = ranges.get(instruction.operands.get(*operand)?)?;
        if range.least >= 0 && range.greatest <= i128::from(*greatest) {
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
    })
}

pub(super) fn indexed(form: &Form) -> Indexed {
    let constant = match form.name() {
        "gather" => "NCC_EVRF056",
        "scatter" => "NCC_EVRF031",
        "dynamic_slice" | "dynamic_update_slice" => "NCC_ESMP002",
        _ => return Indexed::default(),
    };
    Indexed { constant, operands: operands(form) }
}

fn operands(form: &Form) -> Vec<(usize, u64)> {
    let types = &form.operand_types;
    let Some(table) = types.first() else { return Vec::new() };
    let sizes = |name: &str| -> Vec<u64> {
        let found = form.integers(name).unwrap_or_default().concat();
        found.into_iter().map(|size| size.max(0) as u64).collect()
    };
    let last = |axis: usize, size: u64| table.dims.get(axis).map(|dim| dim.saturating_sub(size));
    match form.name() {
        "gather" => {
            let (sizes, axes) = (sizes("slice_sizes"), sizes("start_index_map"));
            of_axes(&axes, |axis| last(axis, sizes.get(axis).copied().unwrap_or(1)))
        }
        "scatter" => {
            let axes = sizes("scatter_dims_to_operand_dims");
            let windows = windows(form, table.dims.len());
            of_axes(&axes, |axis| last(axis, *windows.get(axis)?))
        }
        "dynamic_slice" => of_starts(1, form.result().dims, last),
        _ => of_starts(2, types.get(1).map(|it| it.dims.clone()).unwrap_or_default(), last),
    }
}

/// An index into each axis, of slices with these sizes, from the operand `first` on.
fn of_starts(
    first: usize,
    sizes: Vec<u64>,
    last: impl Fn(usize, u64) -> Option<u64>,
) -> Vec<(usize, u64)> {
    let starts = sizes.into_iter().enumerate();
    starts.filter_map(|(axis, size)| Some((first + axis, last(axis, size)?))).collect()
}

/// The sizes of a scatter's updates along the axes of its operand, of which it has those that are not inserted.
fn windows(form: &Form, rank: usize) -> Vec<u64> {
    let axes = |name: &str| form.integers(name).unwrap_or_default().concat();
    let inserted = [axes("inserted_window_dims"), axes("input_batching_dims")].concat();
    let updates = form.operand_types.last().map(|it| it.dims.clone()).unwrap_or_default();
    let mut sizes = axes("update_window_dims").into_iter().map(|axis| {
        let size = usize::try_from(axis).ok().and_then(|axis| updates.get(axis));
        size.copied().unwrap_or(1)
    });
    let size = |axis| if inserted.contains(&(axis as i64)) { 1 } else { sizes.next().unwrap_or(1) };
    (0..rank).map(size).collect()
}

/// One tensor of indices into several axes, the second operand: the shortest bounds all of them.
fn of_axes(axes: &[u64], last: impl Fn(usize) -> Option<u64>) -> Vec<(usize, u64)> {
    let greatest = axes.iter().filter_map(|axis| last(*axis as usize)).min();
    greatest.map(|greatest| (1, greatest)).into_iter().collect()
}
