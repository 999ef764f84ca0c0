//! The cores that hold the parts of a parameter, for an optimizer that reads it whole.

use traind_models::optimizers::Parts;
use traind_models::{Error as ModelError, Result as ModelResult};
use traind_xla::Tensor;
use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::ShardGroups;

use crate::state::Distribution;

/// A part is gathered over the `data` axis first, and then over the `tensor` axis.
#[derive(Debug)]
pub(super) struct PartCores<'a> {
    pub distribution: &'a Distribution,
    pub shards: ShardGroups,
    pub mesh: &'a Mesh,
    /// The number of this core's shard, a u32 scalar.
    pub shard: Option<Tensor>,
    /// This core's place on the `tensor` axis, a u32 scalar.
    pub tensor_index: Option<Tensor>,
}

impl Parts for PartCores<'_> {
    fn whole(&self, part: &Tensor) -> ModelResult<Tensor> {
        let divided = match self.distribution.layout().is_shard() {
            true => part.gather_shards(&self.distribution.divided_shape(), &self.shards)?,
            false => part.clone(),
        };
        self.distribution.sharding().gather(&divided, &self.mesh.groups(&[Axis::Tensor]))
    }

    fn part(&self, whole: &Tensor) -> ModelResult<Tensor> {
        let missing = |name: &str| ModelError::MissingInput { name: name.to_owned() };
        let sharding = self.distribution.sharding();
        let divided = match &self.tensor_index {
            Some(index) => sharding.take(whole, index)?,
            None if sharding.is_divided() => return Err(missing("tensor_index")),
            None => whole.clone(),
        };
        match &self.shard {
            _ if !self.distribution.layout().is_shard() => Ok(divided),
            Some(number) => Ok(divided.shard(number, &self.shards)?),
            None => Err(missing("shard_number")),
        }
    }
}
