//! The cores that share a batch, whose embeddings a loss compares with each other.

use traind_xla::mesh::{Axis, Mesh};
use traind_xla::{DType, Tensor};

use crate::error::Result;

/// The cores with the other rows of a batch, on all hosts.
#[derive(Clone, Debug)]
pub struct Peers {
    groups: Vec<Vec<usize>>,
    hosts: usize,
    /// The place of this core's rows among those of all, an s32 scalar; none where there is one core.
    shard: Option<Tensor>,
}

impl Peers {
    /// One core by itself.
    pub fn none() -> Peers {
        Peers { groups: Vec::new(), hosts: 1, shard: None }
    }

    /// The cores of `mesh` along the data axis. `shard` is this core's place among them, an s32 scalar.
    pub fn of_mesh(mesh: &Mesh, shard: Tensor) -> Peers {
        if mesh.data_shards() == 1 {
            return Peers::none();
        }
        Peers { groups: mesh.groups(&[Axis::Data]), hosts: mesh.hosts(), shard: Some(shard) }
    }

    /// The tensors [n, ...] of all cores, in their order: [N, ...]. The gradients of all cores' losses flow back.
    pub(super) fn gather(&self, x: &Tensor) -> Result<Tensor> {
        let is_shared = self.groups.first().is_some_and(|group| group.len() > 1);
        let of_host = if is_shared { x.all_gather(0, &self.groups)? } else { x.clone() };
        Ok(if self.hosts == 1 { of_host } else { of_host.all_gather_hosts(self.hosts)? })
    }

    /// Whether a row of all cores, in the order of [`Peers::gather`], is the row of this core: pred[n, N].
    pub(super) fn own(&self, like: &Tensor, own: usize, all: usize) -> Result<Tensor> {
        let trace = like.trace();
        let rows = trace.iota(DType::S32, &[own, all], 0)?;
        let rows = match &self.shard {
            Some(shard) => rows.add(&shard.mul_scalar(own as f64)?)?,
            None => rows,
        };
        Ok(trace.iota(DType::S32, &[own, all], 1)?.eq(&rows)?)
    }
}
