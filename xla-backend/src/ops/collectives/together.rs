//! Several small tensors in one collective, which takes as long as its replicas wait for each other, whatever its size.

use std::sync::Arc;

use super::{ReduceKind, group_size};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::attributes::integer;
use crate::kernels::{KernelUse, Sums};
use crate::mesh::{Axis, Mesh};
use crate::ops::composite::Composite;
use crate::ops::{Participants, Problem, ResultStorage};
use crate::tensor::{Tensor, Trace};

/// The sums of float32 tensors over all replicas of a process, each in the place of its own.
#[derive(Debug)]
struct SumTogether {
    groups: Arc<[Vec<usize>]>,
    /// Another one for each operation of a program.
    meeting: usize,
}

impl Trace {
    /// Returns the result of [`Tensor::all_reduce_over`] for each of `tensors`, of one type.
    pub fn all_reduce_together(
        &self,
        tensors: &[&Tensor],
        kind: ReduceKind,
        mesh: &Mesh,
        axes: &[Axis],
    ) -> Result<Vec<Tensor>> {
        let groups = mesh.groups(axes);
        match tensors {
            [] | [_] => tensors.iter().map(|it| it.all_reduce_over(kind, mesh, axes)).collect(),
            [first, ..] if self.sums_by_kernel(first, kind, mesh, &groups) => {
                let meeting = first.node().index();
                let sums = SumTogether { groups: groups.into(), meeting };
                let sum = self.apply(sums, tensors)?;
                let part = |(index, tensor): (usize, &&Tensor)| match index {
                    0 => Ok(sum.clone()),
                    index => sum.part(index, tensor.shape().clone()),
                };
                tensors.iter().enumerate().map(part).collect()
            }
            _ => joined(self, tensors, |joined| joined.all_reduce_over(kind, mesh, axes)),
        }
    }

    /// Whether a kernel adds tensors like `first`: it reads them where they are. To join them, XLA would compile a loop
    /// for each of them, which takes longer than the rest of a program.
    fn sums_by_kernel(
        &self,
        first: &Tensor,
        kind: ReduceKind,
        mesh: &Mesh,
        groups: &[Vec<usize>],
    ) -> bool {
        let is_one_process = mesh.hosts() == 1 && groups.len() == 1;
        self.calls_kernels()
            && is_one_process
            && (kind, first.dtype()) == (ReduceKind::Sum, DType::F32)
    }
}

/// The parts of what `combine` makes of `tensors` one behind the other.
fn joined(
    trace: &Trace,
    tensors: &[&Tensor],
    combine: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    let flat = tensors.iter().map(|it| it.reshape(&[it.shape().element_count()]));
    let flat = flat.collect::<Result<Vec<_>>>()?;
    let combined = combine(&trace.concatenate(&flat.iter().collect::<Vec<_>>(), 0)?)?;
    let mut start = 0;
    let part = |tensor: &&Tensor| {
        let end = start + tensor.shape().element_count();
        let part = combined.slice(0, start, end)?.reshape(tensor.dims())?;
        start = end;
        Ok(part)
    };
    tensors.iter().map(part).collect()
}

impl Composite for SumTogether {
    fn name(&self) -> &'static str {
        "sum_together"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::InPlace
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn participants(&self) -> Option<Participants> {
        Some(Participants::Groups(self.groups.clone()))
    }

    fn exchanged_bytes(&self, inputs: &[Shape]) -> usize {
        inputs.iter().map(Shape::size_bytes).sum()
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let Some(first) = inputs.first() else { return Err("takes tensors".into()) };
        match inputs.iter().all(|input| input.dtype == first.dtype) {
            true => Ok(first.clone()),
            false => Err("takes tensors of one type".into()),
        }
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        Ok(self.expand_all(inputs)?.swap_remove(0))
    }

    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let tensors: Vec<&Tensor> = inputs.iter().collect();
        joined(inputs[0].trace(), &tensors, |it| it.all_reduce(ReduceKind::Sum, &self.groups))
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let cores = integer(group_size(&self.groups).ok()?);
        let attributes = format!("cores = {cores}, meeting = {}", integer(self.meeting));
        let in_place = (0..inputs.len()).map(|index| [index, index]).collect();
        let kernel = || KernelUse::of_deferred::<Sums>(attributes).in_place(in_place);
        (self.groups.len() == 1 && inputs[0].dtype == DType::F32).then(kernel)
    }
}
