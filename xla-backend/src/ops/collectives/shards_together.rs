//! Shards of several sums in one collective, which takes as long as its replicas wait for each other.

use std::sync::Arc;

use super::{ReduceKind, ShardGroups, group_size};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::attributes::integer;
use crate::kernels::{KernelUse, ShardSums as ShardSumsKernel};
use crate::ops::composite::Composite;
use crate::ops::{Participants, Problem, ResultStorage};
use crate::tensor::{Tensor, Trace};

/// Float32 tensors and the number of this replica, a u32 scalar, to its shards of their sums over all replicas of a
/// process.
#[derive(Debug)]
struct ShardSums {
    groups: Arc<[Vec<usize>]>,
    /// Another one for each operation of a program.
    meeting: usize,
}

impl Trace {
    /// Returns the [shard](Tensor::reduce_to_shard) of the sum of each of `tensors`. `number`: that of this replica, a
    /// u32 scalar.
    pub fn reduce_to_shards_together(
        &self,
        tensors: &[&Tensor],
        number: &Tensor,
        groups: &ShardGroups,
    ) -> Result<Vec<Tensor>> {
        let is_one_process = groups.hosts == 1 && groups.cores.len() == 1 && groups.parts() > 1;
        let are_f32 = tensors.iter().all(|it| it.dtype() == DType::F32);
        let (Some(first), true) =
            (tensors.first(), self.calls_kernels() && is_one_process && are_f32)
        else {
            return tensors.iter().map(|it| it.reduce_to_shard(ReduceKind::Sum, groups)).collect();
        };
        let sums = ShardSums { groups: groups.cores[..].into(), meeting: first.node().index() };
        let lengths: Vec<Shape> =
            tensors.iter().map(|it| shard_shape(it.shape(), groups.parts())).collect();
        let inputs: Vec<&Tensor> = tensors.iter().copied().chain([number]).collect();
        let sum = self.apply(sums, &inputs)?;
        let part = |(index, shape): (usize, Shape)| match index {
            0 => Ok(sum.clone()),
            index => sum.part(index, shape),
        };
        lengths.into_iter().enumerate().map(part).collect()
    }
}

fn shard_shape(whole: &Shape, parts: usize) -> Shape {
    whole.with_dims([whole.element_count().div_ceil(parts.max(1))])
}

impl Composite for ShardSums {
    fn name(&self) -> &'static str {
        "shard_sums"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn participants(&self) -> Option<Participants> {
        Some(Participants::Groups(self.groups.clone()))
    }

    fn exchanged_bytes(&self, inputs: &[Shape]) -> usize {
        let tensors = inputs.split_last().map_or(inputs, |(_, tensors)| tensors);
        tensors.iter().map(Shape::size_bytes).sum()
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let parts = group_size(&self.groups)?;
        match inputs {
            [first, .., number]
                if *number == Shape::scalar(DType::U32)
                    && inputs[..inputs.len() - 1].iter().all(|it| it.dtype == first.dtype) =>
            {
                Ok(shard_shape(first, parts))
            }
            _ => Err("takes tensors of one type and the number of a replica".into()),
        }
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        Ok(self.expand_all(inputs)?.swap_remove(0))
    }

    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let groups = ShardGroups { cores: self.groups.to_vec(), hosts: 1 };
        let tensors = inputs.split_last().map_or(inputs, |(_, tensors)| tensors);
        tensors.iter().map(|it| it.reduce_to_shard(ReduceKind::Sum, &groups)).collect()
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let cores = integer(group_size(&self.groups).ok()?);
        let attributes = format!("cores = {cores}, meeting = {}", integer(self.meeting));
        let kernel = || KernelUse::of_deferred::<ShardSumsKernel>(attributes);
        (self.groups.len() == 1 && inputs[0].dtype == DType::F32).then(kernel)
    }
}
