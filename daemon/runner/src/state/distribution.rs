//! The part of an array of the state that each core holds: divided over the `tensor` axis as the layers
//! are, and each part again over the `data` axis where its layout is a shard. On the host arrays are
//! whole.

use traind_models::Sharding;
use traind_xla::Shape;
use traind_xla::mesh::{Axis, Coordinates};
use traind_xla::runtime::{HostArray, LazyDevice, Variable};

use super::Layout;
use crate::error::RunResult;

#[derive(Clone, Debug)]
pub(crate) struct Distribution {
    sharding: Sharding,
    layout: Layout,
}

impl Distribution {
    /// The same on all cores of the `data` axis.
    pub(super) fn replicated(sharding: Sharding) -> Distribution {
        Distribution { sharding, layout: Layout::Whole }
    }

    /// Over `shards` cores of the `data` axis.
    pub(super) fn sharded(sharding: Sharding, shards: usize) -> Distribution {
        let layout = Layout::of(&sharding.held_shape(), shards);
        Distribution { sharding, layout }
    }

    /// The layout of a core's part over the `data` axis.
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The axes along which cores hold different parts.
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

    /// Sets a variable on each core to the part of the whole `array` that the core holds.
    pub(super) fn set(
        &self,
        device: &mut LazyDevice,
        variable: Variable,
        array: &HostArray,
    ) -> RunResult<()> {
        if self.axes().is_empty() {
            return Ok(device.set(variable, array)?);
        }
        let (sharding, layout) = (&self.sharding, &self.layout);
        let parts = (0..sharding.parts())
            .map(|core| layout.split(&*sharding.part(array, core)?))
            .collect::<RunResult<Vec<_>>>()?;
        let held: Vec<&HostArray> = device
            .cores()
            .coordinates()
            .map(|at| &parts[at.tensor % parts.len()])
            .zip(device.cores().coordinates())
            .map(|(shards, at)| &shards[at.data % shards.len()])
            .collect();
        Ok(device.set_per_core(variable, &held)?)
    }

    /// Copies the whole value of a variable to the host.
    pub(super) fn read(&self, device: &LazyDevice, variable: Variable) -> RunResult<HostArray> {
        let part = |tensor| -> RunResult<HostArray> {
            let shard = |data| -> RunResult<HostArray> {
                let at = Coordinates { data, tensor, ..Coordinates::default() };
                Ok(device.value(variable, device.cores().core_at(at)?)?)
            };
            let shards = (0..self.layout.shards()).map(shard).collect::<RunResult<_>>()?;
            self.layout.join(shards, &self.divided_shape())
        };
        let parts = (0..self.sharding.parts()).map(part).collect::<RunResult<_>>()?;
        Ok(self.sharding.join(parts)?)
    }
}
