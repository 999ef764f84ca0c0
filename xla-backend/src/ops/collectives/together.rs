//! Several small tensors in one collective, which takes as long as its replicas wait for each other, whatever its size.

use super::ReduceKind;
use crate::error::Result;
use crate::mesh::{Axis, Mesh};
use crate::tensor::{Tensor, Trace};

impl Trace {
    /// Returns the result of [`Tensor::all_reduce_over`] for each of `tensors`, of one type.
    pub fn all_reduce_together(
        &self,
        tensors: &[&Tensor],
        kind: ReduceKind,
        mesh: &Mesh,
        axes: &[Axis],
    ) -> Result<Vec<Tensor>> {
        if let [] | [_] = tensors {
            return tensors.iter().map(|it| it.all_reduce_over(kind, mesh, axes)).collect();
        }
        let flat = tensors.iter().map(|it| it.reshape(&[it.shape().element_count()]));
        let flat = flat.collect::<Result<Vec<_>>>()?;
        let joined = self.concatenate(&flat.iter().collect::<Vec<_>>(), 0)?;
        let combined = joined.all_reduce_over(kind, mesh, axes)?;
        let mut start = 0;
        let part = |tensor: &&Tensor| {
            let end = start + tensor.shape().element_count();
            let part = combined.slice(0, start, end)?.reshape(tensor.dims())?;
            start = end;
            Ok(part)
        };
        tensors.iter().map(part).collect()
    }
}
