//! Shards over the cores of a host, and over hosts. What crosses the network is the smallest part: the cores of a host
//! divide a tensor first, and the same core of all hosts divides what it has.

use super::ReduceKind;
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::ops::{Operation, ResultStorage};
use crate::tensor::Tensor;

/// The cores that divide tensors along axis 0: those of each group, and the same of `hosts`. Where the cores of a group
/// have the numbers c and hosts the numbers h, part number c · `hosts` + h is that of core c of host h.
#[derive(Clone, Debug, Default)]
pub struct ShardGroups {
    /// Replicas of this host.
    pub cores: Vec<Vec<usize>>,
    /// 1 where each host has all parts.
    pub hosts: usize,
}

impl ShardGroups {
    /// The number of parts.
    pub fn parts(&self) -> usize {
        self.cores.first().map_or(1, Vec::len) * self.hosts
    }
}

impl Tensor {
    /// Each core's part of the combination of all tensors.
    pub fn reduce_scatter_over(&self, kind: ReduceKind, groups: &ShardGroups) -> Result<Tensor> {
        let part = self.reduce_scatter(kind, 0, &groups.cores)?;
        if groups.hosts == 1 { Ok(part) } else { part.reduce_scatter_hosts(kind, groups.hosts) }
    }

    /// The part numbered `number`, a u32 scalar, of the flattened tensor: equal parts of its elements, with zeros
    /// behind the last.
    pub fn shard(&self, number: &Tensor, groups: &ShardGroups) -> Result<Tensor> {
        let length = self.shape().element_count().div_ceil(groups.parts());
        let start = number.mul_scalar(length as f64)?;
        self.flat_with_zeros(groups)?.dynamic_slice(0, &start, length)
    }

    /// This core's [shard](Tensor::shard) of the combination of all tensors.
    pub fn reduce_to_shard(&self, kind: ReduceKind, groups: &ShardGroups) -> Result<Tensor> {
        self.flat_with_zeros(groups)?.reduce_scatter_over(kind, groups)
    }

    /// The elements, with zeros behind them that make all shards equally long.
    fn flat_with_zeros(&self, groups: &ShardGroups) -> Result<Tensor> {
        let elements = self.shape().element_count();
        let flat = self.reshape(&[elements])?;
        let padding = elements.next_multiple_of(groups.parts()) - elements;
        if padding == 0 { Ok(flat) } else { flat.pad(0, 0, padding, 0.0) }
    }

    /// The tensor of `shape` whose [shard](Tensor::shard) each core has.
    pub fn gather_shards(&self, shape: &Shape, groups: &ShardGroups) -> Result<Tensor> {
        let padded = self.all_gather_over(groups)?;
        let elements = shape.element_count();
        let whole =
            if padded.dims() == [elements] { padded } else { padded.slice(0, 0, elements)? };
        whole.reshape(&shape.dims)
    }

    /// The parts of all cores, joined.
    pub fn all_gather_over(&self, groups: &ShardGroups) -> Result<Tensor> {
        match groups.hosts {
            1 => self.all_gather(0, &groups.cores),
            hosts => self.all_gather_hosts(hosts)?.all_gather(0, &groups.cores),
        }
    }
}

/// Applies an operation that combines the values of hosts: those in half precision in float32.
pub(super) fn combine(values: &Tensor, op: impl Operation) -> Result<Tensor> {
    match values.dtype() {
        half @ (DType::F16 | DType::BF16) => {
            values.convert(DType::F32)?.apply(op, &[])?.convert(half)
        }
        _ => values.apply(op, &[]),
    }
}

/// Returns a view where there is one host, since nothing is exchanged.
pub(super) fn storage(hosts: usize) -> ResultStorage {
    if hosts == 1 { ResultStorage::View } else { ResultStorage::Written }
}
