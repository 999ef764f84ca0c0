//! Small gradients, which cores add in one collective for each layer and one for all else: a collective for each
//! gradient would take as long as cores wait for each other. One for all layers would be known only after the last one.

use std::collections::BTreeMap;

use traind_xla::Tensor;
use traind_xla::mesh::Mesh;
use traind_xla::ops::ReduceKind;

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
        for places in exchanges(local, mesh) {
            if let [place] = places[..] {
                reduced[place] = local[place].clone().reduced(mesh, shard)?;
                continue;
            }
            let first = &local[places[0]];
            let values: Vec<&Tensor> = places.iter().map(|&place| &local[place].value).collect();
            let (trace, axes) = (first.value.trace(), first.summed_axes());
            let sums = trace.all_reduce_together(&values, ReduceKind::Sum, mesh, &axes)?;
            for (place, sum) in places.into_iter().zip(sums) {
                reduced[place] = local[place].with_sum(sum);
            }
        }
        Ok(reduced)
    }

    /// Whether its sum is that of whole gradients which cores exchange, and they are small.
    fn is_small(&self, mesh: &Mesh) -> bool {
        let members = mesh.groups(&self.summed_axes()).first().map_or(1, Vec::len);
        let elements = self.value.shape().element_count();
        let is_exchanged = mesh.hosts() > 1 || members > 1;
        is_exchanged && self.is_own_of_whole() && elements < SHARDED_ELEMENTS_MIN
    }
}

/// The places of the gradients of each exchange, in the order in which all of them are known.
fn exchanges(local: &[Gradient<'_>], mesh: &Mesh) -> Vec<Vec<usize>> {
    let (mut exchanges, mut small) = (Vec::new(), BTreeMap::<_, Vec<usize>>::new());
    for (place, gradient) in local.iter().enumerate() {
        match gradient.is_small(mesh) {
            true => {
                let together = (gradient.layer(), gradient.summed_axes());
                small.entry(together).or_default().push(place);
            }
            false => exchanges.push(vec![place]),
        }
    }
    exchanges.extend(small.into_values());
    exchanges.sort_by_key(|places| places.iter().map(|&place| local[place].value.node()).max());
    exchanges
}
