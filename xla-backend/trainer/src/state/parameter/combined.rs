//! Gradients that cores add together: small ones in one collective for each layer and one for all else, and those of
//! which each core keeps a shard in one for each layer. A collective for each gradient would take as long as cores wait
//! for each other. One for all layers would be known only after the last one.

use std::collections::BTreeMap;

use traind_xla::Tensor;
use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::{ReduceKind, ShardGroups};

use super::Gradient;
use crate::error::Result;
use crate::state::layout::SHARDED_ELEMENTS_MIN;

impl<'a> Gradient<'a> {
    /// Sums gradients over all cores; each keeps its own shard, if there are any. Hosts exchange them in the order in
    /// which they are recorded: that in which the backward pass computes them. `shard`: the number of the core's shard.
    pub(crate) fn all_reduced(
        local: &[Gradient<'a>],
        mesh: &Mesh,
        shard: Option<&Tensor>,
    ) -> Result<Vec<Gradient<'a>>> {
        let mut reduced = local.to_vec();
        for places in exchanges(local, mesh, shard.is_some()) {
            if let [place] = places[..] {
                reduced[place] = local[place].clone().reduced(mesh, shard)?;
                continue;
            }
            let first = &local[places[0]];
            let values: Vec<&Tensor> = places.iter().map(|&place| &local[place].value).collect();
            let (trace, axes) = (first.value.trace(), first.summed_axes());
            let sums = match shard.filter(|_| first.is_shard_of_host(mesh)) {
                Some(shard) => {
                    let groups = ShardGroups { cores: mesh.groups(&[Axis::Data]), hosts: 1 };
                    trace.reduce_to_shards_together(&values, shard, &groups)?
                }
                None => trace.all_reduce_together(&values, ReduceKind::Sum, mesh, &axes)?,
            };
            for (place, sum) in places.into_iter().zip(sums) {
                reduced[place] = local[place].with_sum(sum);
            }
        }
        Ok(reduced)
    }

    /// Whether the cores of one host alone add it, each of which keeps a shard.
    fn is_shard_of_host(&self, mesh: &Mesh) -> bool {
        mesh.hosts() == 1 && self.is_own_of_shard() && self.summed_axes() == [Axis::Data]
    }

    /// Whether its sum is that of whole gradients which cores exchange, and they are small.
    fn is_small(&self, mesh: &Mesh) -> bool {
        let members = mesh.groups(&self.summed_axes()).first().map_or(1, Vec::len);
        let elements = self.value.shape().element_count();
        let is_exchanged = mesh.hosts() > 1 || members > 1;
        is_exchanged && self.is_own_of_whole() && elements < SHARDED_ELEMENTS_MIN
    }
}

/// The places of the gradients of each exchange, in the order in which all of them are known. `joins_shards`: the core
/// knows the number of its shards.
fn exchanges(local: &[Gradient<'_>], mesh: &Mesh, joins_shards: bool) -> Vec<Vec<usize>> {
    let (mut exchanges, mut together) = (Vec::new(), BTreeMap::<_, Vec<usize>>::new());
    for (place, gradient) in local.iter().enumerate() {
        // Cores exchange rows of embeddings, which no layer has.
        let is_shard =
            joins_shards && gradient.layer().is_some() && gradient.is_shard_of_host(mesh);
        match is_shard || gradient.is_small(mesh) {
            true => {
                let key = (gradient.layer(), is_shard, gradient.summed_axes());
                together.entry(key).or_default().push(place);
            }
            false => exchanges.push(vec![place]),
        }
    }
    exchanges.extend(together.into_values());
    exchanges.sort_by_key(|places| places.iter().map(|&place| local[place].value.node()).max());
    exchanges
}
