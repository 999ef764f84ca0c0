//! Every replica of a group gets the parts of all, joined.

use std::sync::Arc;

use super::{ReduceKind, group_size, groups_attribute, storage};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::ops::{
    Backward, Lower, Op, Operation, Participants, Problem, ResultStorage, check_axis, operands,
};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Debug)]
struct AllGather {
    axis: usize,
    groups: Arc<[Vec<usize>]>,
}

impl Tensor {
    /// Joins the tensors of each replica group along `axis`, in the group's order.
    pub fn all_gather(&self, axis: usize, groups: &[Vec<usize>]) -> Result<Tensor> {
        self.apply(AllGather { axis, groups: groups.into() }, &[])
    }

    /// The same parts, with which all replicas of a group continue alike (see [`Tensor::fan_in`]): the
    /// cotangent of a part is its part of that of the whole. `start`, a u32 scalar, is where this
    /// replica's part begins.
    pub fn join(&self, axis: usize, start: &Tensor, groups: &[Vec<usize>]) -> Result<Tensor> {
        self.apply(AllGather { axis, groups: groups.into() }, &[start])
    }
}

impl Op for AllGather {
    fn name(&self) -> &'static str {
        "all_gather"
    }

    fn storage(&self) -> ResultStorage {
        storage(&self.groups)
    }

    fn participants(&self) -> Option<Participants> {
        Some(Participants::Groups(self.groups.clone()))
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let (x, start) = match inputs {
            [x, start] => (x, Some(start)),
            inputs => (&operands::<1>(inputs)?[0], None),
        };
        if start.is_some_and(|start| *start != Shape::scalar(DType::U32)) {
            return Err("joins parts that begin at a u32 scalar".into());
        }
        check_axis(self.axis, x)?;
        let mut whole = x.clone();
        whole.dims[self.axis] *= group_size(&self.groups)?;
        Ok(whole)
    }
}

impl Operation for AllGather {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        if let [x, start] = at.inputs {
            let part = at.cotangent.dynamic_slice(self.axis, start, x.dims()[self.axis])?;
            return Ok(vec![Some(part), None]);
        }
        let part = at.cotangent.reduce_scatter(ReduceKind::Sum, self.axis, &self.groups)?;
        Ok(vec![Some(part)])
    }
}

impl Lower for AllGather {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let groups = groups_attribute(emitter, &self.groups);
        let attributes = format!("all_gather_dim = {} : i64, {groups}", self.axis);
        emitter.generic("all_gather", &[&inputs[0]], &attributes, "", result)
    }
}
