//! Communication between the replicas of a program. A replica group lists the
//! replicas that take part together; the groups of one operation are equally
//! large and disjoint.
//!
//! Gradients are those of the sum, over all replicas, of each one's loss, except
//! with `fan_out`, `fan_in` and `join`.

use traind_mpi::Reduction;

use super::{Problem, ResultStorage, check_axis};
use crate::error::{Error, Result};
use crate::graph::{DType, Shape};
use crate::stablehlo::{Emitter, Value};

mod all_gather;
mod all_gather_hosts;
mod all_reduce;
mod all_reduce_hosts;
mod all_to_all;
mod collective_permute;
mod fan_out;
mod over_hosts;
mod reduce_scatter;
mod reduce_scatter_hosts;
mod rows;
mod shards_together;
mod together;

pub use over_hosts::ShardGroups;

/// The combination of values that meet in a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceKind {
    /// Adds values.
    Sum,
    /// Takes the largest value.
    Max,
    /// Takes the smallest value.
    Min,
}

impl ReduceKind {
    /// Refuses the gradient of a collective `name` that combines values in another way than by adding them.
    fn check_differentiable(self, name: &str) -> Result<()> {
        match self {
            ReduceKind::Sum => Ok(()),
            other => Err(Error::NotDifferentiable { op: format!("{name} of {other:?}") }),
        }
    }

    /// StableHLO's name of the combining operation.
    fn operation(self) -> &'static str {
        match self {
            ReduceKind::Sum => "add",
            ReduceKind::Max => "maximum",
            ReduceKind::Min => "minimum",
        }
    }

    /// MPI's.
    fn reduction(self) -> Reduction {
        match self {
            ReduceKind::Sum => Reduction::Sum,
            ReduceKind::Max => Reduction::Max,
            ReduceKind::Min => Reduction::Min,
        }
    }
}

/// The shape of each of `parts` equal parts along `axis`.
fn part_of(x: &Shape, axis: usize, parts: usize) -> Result<Shape, Problem> {
    check_axis(axis, x)?;
    if !x.dims[axis].is_multiple_of(parts) {
        return Err(format!("axis {axis} does not divide into {parts}").into());
    }
    let mut part = x.clone();
    part.dims[axis] /= parts;
    Ok(part)
}

/// Refuses types that are not added across hosts.
fn check_added(x: &Shape) -> Result<(), Problem> {
    match x.dtype {
        DType::F32 | DType::F64 | DType::S32 | DType::U32 | DType::S64 => Ok(()),
        other => Err(format!("does not take {other}").into()),
    }
}

/// The size of the groups, after checking them.
pub(super) fn group_size(groups: &[Vec<usize>]) -> Result<usize, Problem> {
    let size = groups.first().map_or(0, Vec::len);
    if size == 0 || groups.iter().any(|group| group.len() != size) {
        return Err(format!("replica groups {groups:?} are empty or unequal").into());
    }
    let last = groups.iter().flatten().max().copied().unwrap_or(0);
    let mut seen = vec![false; last + 1];
    if groups.iter().flatten().any(|replica| std::mem::replace(&mut seen[*replica], true)) {
        return Err(format!("replica groups {groups:?} share a replica").into());
    }
    Ok(size)
}

/// Compilers drop a collective of groups of one.
fn storage(groups: &[Vec<usize>]) -> ResultStorage {
    if groups.iter().all(|group| group.len() == 1) {
        ResultStorage::View
    } else {
        ResultStorage::Written
    }
}

/// `dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`.
fn dense_rows(rows: &[Vec<usize>]) -> String {
    let text: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    let width = rows.first().map_or(0, Vec::len);
    format!("dense<[{}]> : tensor<{}x{width}xi64>", text.join(", "), rows.len())
}

/// The attribute of a collective over groups of one host's replicas, on each host that the program spans.
fn groups_attribute(emitter: &Emitter, groups: &[Vec<usize>]) -> String {
    replica_groups(&emitter.on_every_host(groups))
}

fn replica_groups(groups: &[Vec<usize>]) -> String {
    format!("replica_groups = {}", dense_rows(groups))
}

/// Writes an all-reduce over `groups` of the program's replicas.
fn emit_all_reduce(
    emitter: &mut Emitter,
    kind: ReduceKind,
    input: &Value,
    groups: &[Vec<usize>],
) -> Value {
    let shape = input.shape.clone();
    let combine = Emitter::region(kind.operation(), shape.dtype);
    emitter.generic("all_reduce", &[input], &replica_groups(groups), &combine, &shape)
}

#[cfg(test)]
mod tests {
    use super::{dense_rows, group_size};

    #[test]
    fn groups_are_checked() {
        assert_eq!(group_size(&[vec![0, 2], vec![1, 3]]), Ok(2));
        assert!(group_size(&[]).is_err());
        assert!(group_size(&[vec![0, 1], vec![2]]).is_err());
        assert!(group_size(&[vec![0, 1], vec![1, 2]]).is_err());
    }

    #[test]
    fn groups_are_written_as_a_dense_attribute() {
        let text = dense_rows(&[vec![0, 2], vec![1, 3]]);
        assert_eq!(text, "dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>");
    }
}
