//! The two ends of a region in which the replicas of a group share one computation, as tensor
//! parallelism does (Shoeybi et al. 2019, where they are called f and g). Outside of it all
//! replicas of a group hold the same values and the same cotangents, and a loss that each of them
//! computes counts once.

use super::{ReduceKind, group_size, groups_attribute};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::ops::{Backward, Op, Problem, ResultStorage, operands};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Debug)]
struct FanOut {
    groups: Vec<Vec<usize>>,
}

#[derive(Debug)]
struct FanIn {
    groups: Vec<Vec<usize>>,
}

impl Tensor {
    /// The tensor itself, where each replica of a group computes another share of a result from it:
    /// its cotangent is the sum of theirs.
    pub fn fan_out(&self, groups: &[Vec<usize>]) -> Result<Tensor> {
        self.apply(FanOut { groups: groups.to_vec() }, &[])
    }

    /// The sum of the shares that the replicas of a group computed: the cotangent of each is that of
    /// the sum, which all replicas have.
    pub fn fan_in(&self, groups: &[Vec<usize>]) -> Result<Tensor> {
        self.apply(FanIn { groups: groups.to_vec() }, &[])
    }
}

fn infer(inputs: &[Shape], groups: &[Vec<usize>]) -> Result<Shape, Problem> {
    let [x] = operands(inputs)?;
    group_size(groups)?;
    if x.dtype == DType::Pred {
        return Err("does not take pred".into());
    }
    Ok(x.clone())
}

impl Op for FanOut {
    fn name(&self) -> &'static str {
        "fan_out"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::View
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        infer(inputs, &self.groups)
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(at.cotangent.all_reduce(ReduceKind::Sum, &self.groups)?)])
    }

    fn lower(&self, _emitter: &mut Emitter, inputs: &[Value], _result: &Shape) -> Value {
        inputs[0].clone()
    }
}

impl Op for FanIn {
    fn name(&self) -> &'static str {
        "fan_in"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        infer(inputs, &self.groups)
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(at.cotangent.clone())])
    }

    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let combine = Emitter::region(ReduceKind::Sum.operation(), result.dtype);
        let attributes = groups_attribute(&self.groups);
        emitter.generic("all_reduce", &[&inputs[0]], &attributes, &combine, result)
    }
}
