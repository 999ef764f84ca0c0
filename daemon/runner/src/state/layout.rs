//! How the optimizer's state of a parameter is distributed: whole on every core, or sharded.

use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::ReduceKind;
use traind_xla::runtime::HostArray;
use traind_xla::{Shape, Tensor};

use crate::error::RunResult;

/// A smaller parameter is not worth two collectives of its own.
pub(crate) const SHARDED_ELEMENTS_MIN: usize = 1 << 14;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Layout {
    /// Every core updates all of it.
    Whole,
    /// Each of `shards` cores updates `length` elements of the flattened parameter, which is padded
    /// with zeros.
    Shard { shards: usize, length: usize },
}

impl Layout {
    pub(crate) fn of(shape: &Shape, shards: usize) -> Layout {
        let elements = shape.element_count();
        if shards == 1 || elements < SHARDED_ELEMENTS_MIN {
            return Layout::Whole;
        }
        Layout::Shard { shards, length: elements.div_ceil(shards) }
    }

    pub(crate) fn is_shard(&self) -> bool {
        matches!(self, Layout::Shard { .. })
    }

    /// Sums a gradient over the cores, of which each keeps its own shard if the layout has any: those
    /// of this host then, and of all hosts otherwise.
    pub(crate) fn reduce(&self, gradient: &Tensor, mesh: &Mesh) -> traind_xla::Result<Tensor> {
        match *self {
            Layout::Whole => gradient.all_reduce_over(ReduceKind::Sum, mesh, &[Axis::Data]),
            Layout::Shard { shards, length } => {
                let groups = &mesh.groups(&[Axis::Data]);
                let elements = gradient.shape().element_count();
                let flat = gradient.reshape(&[elements])?;
                let padding = shards * length - elements;
                let padded = if padding == 0 { flat } else { flat.pad(0, 0, padding, 0.0)? };
                padded.reduce_scatter(ReduceKind::Sum, 0, groups)
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

    /// Splits an array into one part for each shard, or into the array itself.
    pub(super) fn split(&self, array: &HostArray) -> RunResult<Vec<HostArray>> {
        let Layout::Shard { shards, length } = *self else { return Ok(vec![array.clone()]) };
        let shape = self.held_shape(array.shape());
        let bytes_per_shard = length * shape.dtype.size_bytes();
        let mut bytes = array.bytes().to_vec();
        bytes.resize(shards * bytes_per_shard, 0);
        let parts = bytes.chunks(bytes_per_shard);
        let parts = parts.map(|part| HostArray::from_bytes(shape.clone(), part.to_vec()));
        Ok(parts.collect::<Result<_, _>>()?)
    }

    /// Joins the parts of an array of `shape`.
    pub(super) fn join(&self, parts: Vec<HostArray>, shape: &Shape) -> RunResult<HostArray> {
        let mut bytes: Vec<u8> = Vec::with_capacity(shape.size_bytes());
        for part in &parts {
            bytes.extend(part.bytes());
        }
        bytes.truncate(shape.size_bytes());
        Ok(HostArray::from_bytes(shape.clone(), bytes)?)
    }

    /// The number of different parts.
    pub(super) fn shards(&self) -> usize {
        match self {
            Layout::Whole => 1,
            Layout::Shard { shards, .. } => *shards,
        }
    }
}

#[cfg(test)]
mod tests {
    use traind_xla::DType;

    use super::*;

    #[test]
    fn split_parts_join_to_the_array() {
        let elements = SHARDED_ELEMENTS_MIN + 1;
        let values: Vec<f32> = (0..elements).map(|element| element as f32).collect();
        let array = HostArray::from_f32(&[1, elements], &values).unwrap();
        let shape = Shape::new(DType::F32, [1, elements]);
        for shards in [1, 2, 3, 7] {
            let layout = Layout::of(&shape, shards);
            let parts = layout.split(&array).unwrap();
            assert_eq!((parts.len(), layout.is_shard()), (shards, shards > 1));
            assert!(parts.iter().all(|part| *part.shape() == layout.held_shape(&shape)));
            assert_eq!(layout.join(parts, &shape).unwrap(), array, "{shards} shards");
        }
    }
}
