//! Every replica of a group gets the sum, or an extreme, of all their values.

use std::sync::Arc;

use super::{ReduceKind, emit_all_reduce, group_size, storage};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::ops::{Backward, Lower, Op, Operation, Participants, Problem, ResultStorage, operands};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Debug)]
struct AllReduce {
    kind: ReduceKind,
    groups: Arc<[Vec<usize>]>,
    /// Whether the replicas of a group continue one computation, of which all have the cotangents.
    joins: bool,
}

impl Tensor {
    /// Combines the tensor element by element over each replica group.
    pub fn all_reduce(&self, kind: ReduceKind, groups: &[Vec<usize>]) -> Result<Tensor> {
        self.apply(AllReduce { kind, groups: groups.into(), joins: false }, &[])
    }

    /// The sum of the shares that the replicas of a group computed of one result, with which all of
    /// them continue alike (see [`Tensor::fan_out`]): the cotangent of each share is that of the sum.
    pub fn fan_in(&self, groups: &[Vec<usize>]) -> Result<Tensor> {
        let kind = ReduceKind::Sum;
        self.apply(AllReduce { kind, groups: groups.into(), joins: true }, &[])
    }
}

impl AllReduce {
    /// The replicas that have the extreme value share the cotangents of all.
    fn extreme_gradient(&self, at: &Backward<'_>, total: &Tensor) -> Result<Tensor> {
        let extreme = at.inputs[0].eq(at.output)?.convert(total.dtype())?;
        let count = extreme.all_reduce(ReduceKind::Sum, &self.groups)?;
        extreme.mul(total)?.div(&count)
    }
}

impl Op for AllReduce {
    fn name(&self) -> &'static str {
        "all_reduce"
    }

    fn storage(&self) -> ResultStorage {
        storage(&self.groups)
    }

    fn participants(&self) -> Option<Participants> {
        Some(Participants::Groups(self.groups.clone()))
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        group_size(&self.groups)?;
        if x.dtype == DType::Pred {
            return Err("does not take pred".into());
        }
        Ok(x.clone())
    }
}

impl Operation for AllReduce {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        if self.joins {
            return Ok(vec![Some(at.cotangent.clone())]);
        }
        let total = at.cotangent.all_reduce(ReduceKind::Sum, &self.groups)?;
        Ok(vec![Some(match self.kind {
            ReduceKind::Sum => total,
            ReduceKind::Max | ReduceKind::Min => self.extreme_gradient(at, &total)?,
        })])
    }
}

impl Lower for AllReduce {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], _result: &Shape) -> Value {
        let groups = emitter.on_every_host(&self.groups);
        emit_all_reduce(emitter, self.kind, &inputs[0], &groups)
    }
}
