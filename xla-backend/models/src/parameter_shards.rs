//! Parameters stored in shards over the cores of the `data` axis, of one host or of all (FSDP, which is stage 3 of
//! ZeRO: Rajbhandari et al., 2020). A core gathers the parameters of a layer while the layer before it
//! runs, and again while the backward pass of the layer behind it does. The gradient of a shard is
//! its part of the sum over these cores.

use std::collections::HashMap;

use traind_xla::ops::ShardGroups;
use traind_xla::{DType, Shape, Tensor};

use crate::error::Result;

/// The parameters that are stored in shards.
#[derive(Clone, Debug, Default)]
pub struct ParameterShards {
    groups: ShardGroups,
    /// The shapes that layers read, by name.
    shapes: HashMap<String, Shape>,
}

impl ParameterShards {
    /// The cores of `groups` have the shards of parameters, which layers read in `shapes`.
    pub fn new(
        groups: ShardGroups,
        shapes: impl IntoIterator<Item = (String, Shape)>,
    ) -> ParameterShards {
        ParameterShards { groups, shapes: shapes.into_iter().collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// Whether cores store shards of the parameter `name`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.shapes.contains_key(name)
    }

    /// All of the parameter `name` in `dtype`, of which `shard` is stored. It is gathered no sooner than
    /// `never`, a value of [`Trace::never`](traind_xla::Trace::never), is known.
    pub(crate) fn gather(
        &self,
        name: &str,
        shard: &Tensor,
        dtype: DType,
        never: Option<&Tensor>,
    ) -> Result<Tensor> {
        let gathered = shard.trace().transient("gather", || {
            let shard = never.map_or_else(|| Ok(shard.clone()), |never| shard.withheld(never))?;
            shard.gather_shards(&self.shapes[name], &self.groups)?.convert(dtype)
        });
        Ok(gathered?)
    }
}
