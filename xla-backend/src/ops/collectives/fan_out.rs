//! Where the replicas of a group begin to share one computation, as tensor parallelism does (Shoeybi
//! et al. 2019, who call this operation f, and `fan_in`, which ends it, g). Outside of it all replicas
//! of a group have the same values and the same cotangents, and a loss that each computes counts once.

use super::{ReduceKind, group_size};
use crate::error::Result;
use crate::graph::Shape;
use crate::ops::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Debug)]
struct FanOut {
    groups: Vec<Vec<usize>>,
}

impl Tensor {
    /// The tensor itself, from which each replica of a group computes another share of a result: its
    /// cotangent is the sum of theirs.
    pub fn fan_out(&self, groups: &[Vec<usize>]) -> Result<Tensor> {
        self.apply(FanOut { groups: groups.to_vec() }, &[])
    }
}

impl Op for FanOut {
    fn name(&self) -> &'static str {
        "fan_out"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::View
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        group_size(&self.groups)?;
        Ok(x.clone())
    }
}

impl Operation for FanOut {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(at.cotangent.all_reduce(ReduceKind::Sum, &self.groups)?)])
    }
}

impl Lower for FanOut {
    fn lower(&self, _emitter: &mut Emitter, inputs: &[Value], _result: &Shape) -> Value {
        inputs[0].clone()
    }
}
