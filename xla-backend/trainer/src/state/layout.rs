//! How the optimizer's state of a parameter is distributed: whole on every core, or sharded.

use std::ops::Range;

use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::{ReduceKind, ShardGroups};
use traind_xla::{Shape, Tensor};

/// A smaller parameter is not worth two collectives of its own.
pub const SHARDED_ELEMENTS_MIN: usize = 1 << 14;

/// The cores of the `data` axis that have different shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shards {
    /// The cores of each host.
    pub cores: usize,
    pub hosts: usize,
}

impl Shards {
    pub(crate) const ONE: Shards = Shards { cores: 1, hosts: 1 };

    pub(super) fn count(self) -> usize {
        self.cores * self.hosts
    }

    /// The number of the shard of a core of a host, which has its number among those along `data`.
    pub(super) fn number(self, core: usize, host: usize) -> usize {
        core % self.cores * self.hosts + host % self.hosts
    }

    /// The groups of `mesh` in which they meet.
    pub(super) fn groups(self, mesh: &Mesh) -> ShardGroups {
        ShardGroups { cores: mesh.groups(&[Axis::Data]), hosts: self.hosts }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Layout {
    /// Every core updates all of it.
    Whole,
    /// Each core of `shards` updates `length` elements of the flattened parameter, which is padded with zeros. The
    /// cores of a host divide it, and then the hosts divide what each core has.
    Shard { shards: Shards, length: usize },
}

impl Layout {
    pub(super) fn of(shape: &Shape, shards: Shards) -> Layout {
        let elements = shape.element_count();
        if shards == Shards::ONE || elements < SHARDED_ELEMENTS_MIN {
            return Layout::Whole;
        }
        Layout::Shard { shards, length: elements.div_ceil(shards.count()) }
    }

    pub(crate) fn is_shard(&self) -> bool {
        matches!(self, Layout::Shard { .. })
    }

    /// Sums a gradient over the cores, of which each keeps its own shard if the layout has any: those that have
    /// different shards then, and those of all hosts otherwise.
    pub(super) fn reduce(&self, gradient: &Tensor, mesh: &Mesh) -> traind_xla::Result<Tensor> {
        match *self {
            Layout::Whole => gradient.all_reduce_over(ReduceKind::Sum, mesh, &[Axis::Data]),
            Layout::Shard { shards, .. } => {
                gradient.reduce_to_shard(ReduceKind::Sum, &shards.groups(mesh))
            }
        }
    }

    /// The shape of a core's part of a parameter of `shape`.
    pub(crate) fn held_shape(&self, shape: &Shape) -> Shape {
        match self {
            Layout::Whole => shape.clone(),
            Layout::Shard { length, .. } => shape.with_dims([*length]),
        }
    }

    /// The elements of an array of `shape` that core `core` of a host has.
    pub(super) fn elements(&self, shape: &Shape, host: usize, core: usize) -> Range<usize> {
        let elements = shape.element_count();
        let Layout::Shard { shards, length } = *self else { return 0..elements };
        let start = shards.number(core, host) * length;
        start.min(elements)..(start + length).min(elements)
    }

    pub(super) fn shards(&self) -> Shards {
        match self {
            Layout::Whole => Shards::ONE,
            Layout::Shard { shards, .. } => *shards,
        }
    }
}
