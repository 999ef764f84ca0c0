//! Operations that change no value: a border for gradients, and borders that
//! the compiler's optimizations do not cross.

use super::{Backward, Op, Problem, ResultStorage};
use crate::error::Result;
use crate::graph::Shape;
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Debug)]
struct StopGradient;

/// Its result is its first operand, which counts as unknown until all the
/// others are there. One operand makes it a plain barrier.
#[derive(Debug)]
struct OptimizationBarrier;

impl Tensor {
    /// Returns the value, through which no gradient flows.
    pub fn stop_gradient(&self) -> Result<Tensor> {
        self.apply(StopGradient, &[])
    }

    /// Returns the value, which the compiler does not merge with an equal one.
    pub fn optimization_barrier(&self) -> Result<Tensor> {
        self.apply(OptimizationBarrier, &[])
    }

    /// Returns the value, on which nothing is computed before `others` are there.
    pub fn after(&self, others: &[&Tensor]) -> Result<Tensor> {
        self.apply(OptimizationBarrier, others)
    }
}

fn first(inputs: &[Shape]) -> Result<Shape, Problem> {
    inputs.first().cloned().ok_or_else(|| "takes an operand".into())
}

impl Op for StopGradient {
    fn name(&self) -> &'static str {
        "stop_gradient"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        first(inputs)
    }

    fn gradient(&self, _at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![None])
    }

    fn lower(&self, _emitter: &mut Emitter, inputs: &[Value], _result: &Shape) -> Value {
        inputs[0].clone()
    }
}

impl Op for OptimizationBarrier {
    fn name(&self) -> &'static str {
        "optimization_barrier"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        first(inputs)
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let mut gradients = vec![None; at.inputs.len()];
        gradients[0] = Some(at.cotangent.clone());
        Ok(gradients)
    }

    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], _result: &Shape) -> Value {
        emitter.optimization_barrier(inputs)
    }
}
