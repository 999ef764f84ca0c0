//! The cores that hold the parts of a parameter, for an optimizer that reads it whole.

use traind_models::optimizers::{Parts, Shardable};
use traind_models::{Error as ModelError, Result as ModelResult};
use traind_xla::Tensor;
use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::ShardGroups;
use traind_xla::runtime::Recording;

use super::{Gradient, ParameterUpdate};
use crate::error::Result;
use crate::state::Distribution;

/// A part is gathered over the `data` axis first, and then over the `tensor` axis.
#[derive(Debug)]
pub(super) struct PartCores<'a> {
    distribution: &'a Distribution,
    shards: ShardGroups,
    mesh: &'a Mesh,
    /// The number of this core's shard, a u32 scalar.
    shard: Option<Tensor>,
    /// This core's place on the `tensor` axis, a u32 scalar.
    tensor_index: Option<Tensor>,
}

impl<'a> PartCores<'a> {
    /// `None` where each core has the whole parameter, or its optimizer does not read it.
    pub(super) fn of(
        at: &mut Recording<'_>,
        with: &ParameterUpdate<'a>,
        gradient: &'a Gradient<'_>,
    ) -> Result<Option<PartCores<'a>>> {
        let (distribution, spec) = (&gradient.training.distribution, &gradient.training.spec);
        let shardable = with.optimizers.in_group(gradient.training.group).shardable(spec);
        if shardable != Shardable::Gathered || distribution.axes().is_empty() {
            return Ok(None);
        }
        let is_divided = distribution.sharding().is_divided();
        let index = with.tensor_index.filter(|_| is_divided);
        Ok(Some(PartCores {
            distribution,
            shards: distribution.layout().shards().groups(with.mesh),
            mesh: with.mesh,
            shard: with.shard.map(|numbers| numbers.shard.clone()),
            tensor_index: index.map(|index| at.read(index)).transpose()?,
        }))
    }
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
