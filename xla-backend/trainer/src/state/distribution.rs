//! The part of an array of the state that each core holds: divided over the `tensor` axis as the layers
//! are, and each part again over the `data` axis where its layout is a shard. The host has a part of the whole
//! array, which is all of it unless hosts have different shards.

use std::ops::Range;

use traind_models::Sharding;
use traind_models::weights::ArrayPart;
use traind_xla::Shape;
use traind_xla::mesh::{Axis, Coordinates};
use traind_xla::runtime::{HostArray, LazyDevice, Variable};

use super::Layout;
use super::layout::Shards;
use crate::error::Result;

#[derive(Clone, Debug)]
pub(crate) struct Distribution {
    sharding: Sharding,
    layout: Layout,
    /// The place of this host among those with the same stages.
    host: usize,
}

/// The place of a core among those that hold different parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    data: usize,
    tensor: usize,
}

/// Elements that stand together in the whole array and in a core's part of it.
struct Run {
    whole: Range<usize>,
    /// Bytes of the core's part.
    held: Range<usize>,
}

impl Distribution {
    /// A distribution in which all cores of the `data` axis hold the same.
    pub(super) fn replicated(sharding: Sharding, host: usize) -> Distribution {
        Distribution { sharding, layout: Layout::Whole, host }
    }

    /// A distribution over `shards` of the `data` axis.
    pub(super) fn sharded(sharding: Sharding, shards: Shards, host: usize) -> Distribution {
        let layout = Layout::of(&sharding.held_shape(), shards);
        Distribution { sharding, layout, host }
    }

    /// The layout of a core's part over the `data` axis.
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The division over the `tensor` axis.
    pub(super) fn sharding(&self) -> &Sharding {
        &self.sharding
    }

    /// Whether hosts hold different parts.
    pub(super) fn is_over_hosts(&self) -> bool {
        self.layout.shards().hosts > 1
    }

    /// Whether this host saves its part. Others may have the same.
    pub(super) fn is_saved_here(&self) -> bool {
        self.host == 0 || self.is_over_hosts()
    }

    /// The axes along which cores of this host hold different parts.
    pub(super) fn axes(&self) -> Vec<Axis> {
        let data = self.layout.is_shard().then_some(Axis::Data);
        let tensor = self.sharding.is_divided().then_some(Axis::Tensor);
        data.into_iter().chain(tensor).collect()
    }

    /// The number of cores of the `tensor` axis that hold the same part of a divided array.
    pub(super) fn copies(&self) -> usize {
        self.sharding.copies()
    }

    pub(super) fn whole_shape(&self) -> &Shape {
        self.sharding.whole_shape()
    }

    /// The shape of a core's part, before it is sharded over the `data` axis.
    pub(super) fn divided_shape(&self) -> Shape {
        self.sharding.held_shape()
    }

    /// The shape that a core holds.
    pub(super) fn held_shape(&self) -> Shape {
        self.layout.held_shape(&self.divided_shape())
    }

    /// The elements of the whole array that the cores of this host hold.
    pub(super) fn held_ranges(&self) -> Vec<Range<usize>> {
        let runs = self.holders().flat_map(|holder| self.runs(holder));
        runs.map(|run| run.whole).collect()
    }

    /// The cores of this host that hold different parts.
    fn holders(&self) -> impl Iterator<Item = Holder> {
        let (parts, cores) = (self.sharding.parts(), self.layout.shards().cores);
        (0..parts).flat_map(move |tensor| (0..cores).map(move |data| Holder { data, tensor }))
    }

    /// Returns the bytes that a core holds of the whole array. Zeros may follow.
    fn runs(&self, holder: Holder) -> Vec<Run> {
        let divided = self.divided_shape();
        let size = divided.dtype.size_bytes();
        let shard = self.layout.elements(&divided, self.host, holder.data);
        let runs = self.sharding.runs(holder.tensor).into_iter();
        let of_shard = runs.filter_map(|run| {
            let first = run.held.max(shard.start);
            let end = (run.held + run.whole.len()).min(shard.end);
            let start = run.whole.start + first - run.held;
            (first < end).then(|| Run {
                whole: start..start + end - first,
                held: (first - shard.start) * size..(end - shard.start) * size,
            })
        });
        of_shard.collect()
    }

    /// Sets a variable on each core to the part of the whole `array` that the core holds.
    pub(super) fn set(
        &self,
        device: &mut LazyDevice,
        variable: Variable,
        array: &HostArray,
    ) -> Result<()> {
        if self.axes().is_empty() {
            return Ok(device.set(variable, array)?);
        }
        // Fails on an array of another shape, whose elements would be others.
        self.sharding.check_whole(array)?;
        let size = array.shape().dtype.size_bytes();
        let elements =
            |range: Range<usize>| Ok(&array.bytes()[range.start * size..range.end * size]);
        self.set_elements(device, variable, &elements)
    }

    /// Sets a variable on each core to what the core holds of `part`, which has what the cores of this host hold.
    pub(super) fn set_part(
        &self,
        device: &mut LazyDevice,
        variable: Variable,
        part: &ArrayPart,
    ) -> Result<()> {
        self.set_elements(device, variable, &|range| Ok(part.elements(range)?))
    }

    fn set_elements<'a>(
        &self,
        device: &mut LazyDevice,
        variable: Variable,
        elements: &impl Fn(Range<usize>) -> Result<&'a [u8]>,
    ) -> Result<()> {
        let held = |holder| -> Result<HostArray> {
            let shape = self.held_shape();
            let mut bytes = vec![0; shape.size_bytes()];
            for run in self.runs(holder) {
                bytes[run.held].copy_from_slice(elements(run.whole)?);
            }
            Ok(HostArray::from_bytes(shape, bytes)?)
        };
        let parts = self.holders().map(held).collect::<Result<Vec<_>>>()?;
        let (tensors, cores) = (self.sharding.parts(), self.layout.shards().cores);
        let place = |at: Coordinates| at.tensor % tensors * cores + at.data % cores;
        let of_cores = device.cores().coordinates().map(|at| &parts[place(at)]);
        let of_cores: Vec<&HostArray> = of_cores.collect();
        Ok(device.set_per_core(variable, &of_cores)?)
    }

    /// Copies what this host holds of a variable's value to the host.
    pub(super) fn read(&self, device: &LazyDevice, variable: Variable) -> Result<ArrayPart> {
        if self.axes().is_empty() {
            return Ok(device.value(variable, 0)?.into());
        }
        let mut part = ArrayPart::zeros(self.whole_shape().clone(), self.held_ranges());
        for holder in self.holders() {
            let Holder { data, tensor } = holder;
            let at = Coordinates { data, tensor, ..Coordinates::default() };
            let value = device.value(variable, device.cores().core_at(at)?)?;
            for run in self.runs(holder) {
                part.elements_mut(run.whole)?.copy_from_slice(&value.bytes()[run.held]);
            }
        }
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use traind_models::parameters::{Dimension, Init, ParameterPath, Role};

    use super::*;

    const SIDE: usize = 200;

    /// A matrix whose columns two cores of the `tensor` axis divide.
    fn distribution(shards: Shards, tensor: usize, host: usize) -> Distribution {
        let mut specs = Vec::new();
        let dimensions = [SIDE.into(), Dimension::features(SIDE)];
        ParameterPath::root(&mut specs).declare("w", Role::Projection, &dimensions, Init::Zeros);
        Distribution::sharded(Sharding::of(&specs[0], tensor).unwrap(), shards, host)
    }

    #[test]
    fn hosts_hold_each_element_once_and_cores_a_part_of_equal_size() {
        for (cores, hosts, tensor) in [(1, 1, 1), (2, 1, 2), (2, 2, 1), (3, 2, 2), (1, 7, 1)] {
            let mut holders = vec![0; SIDE * SIDE];
            for host in 0..hosts {
                let distribution = distribution(Shards { cores, hosts }, tensor, host);
                let length = distribution.held_shape().element_count();
                assert_eq!(length, (SIDE * SIDE / tensor).div_ceil(cores * hosts));
                assert!(distribution.is_saved_here());
                for range in distribution.held_ranges() {
                    holders[range].iter_mut().for_each(|holders| *holders += 1);
                }
            }
            assert!(holders.iter().all(|count| *count == 1), "{cores} {hosts} {tensor}");
        }
        // The second of two hosts that hold the same.
        let second = distribution(Shards { cores: 4, hosts: 1 }, 1, 1);
        let held = ArrayPart::zeros(second.whole_shape().clone(), second.held_ranges());
        assert!(!second.is_saved_here() && held.into_array().is_ok());
    }
}
