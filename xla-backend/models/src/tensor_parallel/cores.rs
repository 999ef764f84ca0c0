//! The cores that share the layers of one copy of the model, in a trace.

use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::{Random, ReduceKind};
use traind_xla::{DType, Tensor};

use crate::error::Result;

/// The groups of cores that share layers, and the place of this core in its group.
#[derive(Clone, Debug)]
pub struct TensorCores {
    groups: Vec<Vec<usize>>,
    /// A u32 scalar.
    index: Tensor,
    divides_positions: bool,
}

impl TensorCores {
    /// `index`, a u32 scalar, is this core's coordinate on the `tensor` axis. `None` where the axis has
    /// one core.
    pub fn of(mesh: &Mesh, index: &Tensor) -> Option<TensorCores> {
        let groups = mesh.groups(&[Axis::Tensor]);
        let (index, divides_positions) = (index.clone(), false);
        (mesh.size(Axis::Tensor) > 1).then_some(TensorCores { groups, index, divides_positions })
    }

    /// The same cores, which also divide the positions between the layers that they share, if
    /// `divides` says so.
    pub fn dividing_positions(self, divides: bool) -> TensorCores {
        TensorCores { divides_positions: divides, ..self }
    }

    /// Whether each core has some of the positions between layers.
    pub(super) fn divides_positions(&self) -> bool {
        self.divides_positions
    }

    pub(super) fn groups(&self) -> &[Vec<usize>] {
        &self.groups
    }

    /// This core's place in its group, a u32 scalar.
    pub(super) fn index(&self) -> &Tensor {
        &self.index
    }

    /// The number of cores in a group.
    pub fn count(&self) -> usize {
        self.groups.first().map_or(1, Vec::len)
    }

    /// `x`, from which each core then computes a share of a result.
    pub(crate) fn fan_out(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.fan_out(&self.groups)?)
    }

    /// A parameter of which the cores of a group have `parts` different parts, so that several cores
    /// compute from the same one: its gradient is the sum of theirs.
    pub(crate) fn fan_out_copies(&self, parameter: &Tensor, parts: usize) -> Result<Tensor> {
        let copies = self.count() / parts.max(1);
        if copies <= 1 {
            return Ok(parameter.clone());
        }
        let groups = self.groups.iter().flat_map(|group| group.chunks(copies));
        Ok(parameter.fan_out(&groups.map(<[usize]>::to_vec).collect::<Vec<_>>())?)
    }

    /// The sum of the shares that the cores computed.
    pub(crate) fn fan_in(&self, share: &Tensor) -> Result<Tensor> {
        Ok(share.fan_in(&self.groups)?)
    }

    /// The parts of all cores, joined along `axis`.
    pub(crate) fn join(&self, part: &Tensor, axis: usize) -> Result<Tensor> {
        Ok(part.all_gather(axis, &self.groups)?)
    }

    /// The largest or smallest value of the cores.
    pub(crate) fn extreme(&self, kind: ReduceKind, x: &Tensor) -> Result<Tensor> {
        Ok(x.all_reduce(kind, &self.groups)?)
    }

    /// The number of the first of `width` elements that this core holds, where each core holds as
    /// many: an s32 scalar.
    pub(crate) fn first_of(&self, width: usize) -> Result<Tensor> {
        Ok(self.index.convert(DType::S32)?.mul_scalar(width as f64)?)
    }

    /// The random bits of tensors whose last axis holds `features` of those of all cores.
    pub(crate) fn random_of_features(&self, random: &Random, features: usize) -> Result<Random> {
        Ok(random.from_place(1, &self.index.mul_scalar(features as f64)?))
    }

    /// The random bits of tensors that hold `heads` of the heads of each row.
    pub(crate) fn random_of_heads(&self, random: &Random, heads: usize) -> Result<Random> {
        let first = self.index.mul_scalar(heads as f64)?;
        Ok(random.in_blocks(&first, heads * self.count()))
    }
}
