//! Each replica of a group gets its part of the sum of all their values.

use std::sync::Arc;

use super::{ReduceKind, group_size, groups_attribute, part_of, storage};
use crate::error::Result;
use crate::graph::Shape;
use crate::ops::{Backward, Lower, Op, Operation, Participants, Problem, ResultStorage, operands};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Debug)]
struct ReduceScatter {
    kind: ReduceKind,
    axis: usize,
    groups: Arc<[Vec<usize>]>,
}

impl Tensor {
    /// Combines the tensor over each replica group and cuts the result along
    /// `axis`; the n-th replica of a group gets the n-th part.
    pub fn reduce_scatter(
        &self,
        kind: ReduceKind,
        axis: usize,
        groups: &[Vec<usize>],
    ) -> Result<Tensor> {
        self.apply(ReduceScatter { kind, axis, groups: groups.into() }, &[])
    }
}

impl Op for ReduceScatter {
    fn name(&self) -> &'static str {
        "reduce_scatter"
    }

    fn storage(&self) -> ResultStorage {
        storage(&self.groups)
    }

    fn participants(&self) -> Option<Participants> {
        Some(Participants::Groups(self.groups.clone()))
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        part_of(x, self.axis, group_size(&self.groups)?)
    }
}

impl Operation for ReduceScatter {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        self.kind.check_differentiable(self.name())?;
        Ok(vec![Some(at.cotangent.all_gather(self.axis, &self.groups)?)])
    }
}

impl Lower for ReduceScatter {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let groups = groups_attribute(emitter, &self.groups);
        let attributes = format!("scatter_dimension = {} : i64, {groups}", self.axis);
        let combine = Emitter::region(self.kind.operation(), result.dtype);
        emitter.generic("reduce_scatter", &[&inputs[0]], &attributes, &combine, result)
    }
}
