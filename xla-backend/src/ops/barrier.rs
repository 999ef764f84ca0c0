//! Operations that change no value: a border for gradients, and borders that
//! the compiler's optimizations do not cross.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::{Tensor, Trace};

#[derive(Debug)]
struct StopGradient;

/// An operation whose result is its first operand, which counts as unknown until all the
/// others are there. One operand makes it a plain barrier.
#[derive(Debug)]
struct OptimizationBarrier;

/// An operation whose result is its first operand, read no sooner than the second is known.
#[derive(Debug)]
struct Withhold;

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

    /// Returns the value, which no program reads before it knows `never`, a value of
    /// [`Trace::never`]. Compilers drop barriers, but none looks through a choice.
    pub fn withheld(&self, never: &Tensor) -> Result<Tensor> {
        self.apply(Withhold, &[never])
    }
}

impl Trace {
    /// False, which no program knows before all of `awaited` are there: no number is both
    /// above and below zero.
    pub fn never(&self, awaited: &[Tensor]) -> Result<Tensor> {
        let mut elements = awaited.iter().map(first_element);
        let first = elements.next().unwrap_or_else(|| self.scalar(0.0, DType::F32))?;
        let sum = elements.try_fold(first, |sum, element| sum.add(&element?))?;
        sum.gt_scalar(0.0)?.and(&sum.lt_scalar(0.0)?)
    }
}

fn first_element(tensor: &Tensor) -> Result<Tensor> {
    let mut first = tensor.clone();
    for axis in 0..tensor.rank() {
        first = first.slice(axis, 0, 1)?;
    }
    first.reshape(&[])?.convert(DType::F32)
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
}

impl Operation for StopGradient {
    fn gradient(&self, _at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![None])
    }
}

impl Lower for StopGradient {
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
}

impl Operation for OptimizationBarrier {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let mut gradients = vec![None; at.inputs.len()];
        gradients[0] = Some(at.cotangent.clone());
        Ok(gradients)
    }
}

impl Lower for OptimizationBarrier {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], _result: &Shape) -> Value {
        emitter.optimization_barrier(inputs)
    }
}

impl Op for Withhold {
    fn name(&self) -> &'static str {
        "withhold"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [value, never] = operands(inputs)?;
        if *never != Shape::scalar(DType::Pred) {
            return Err("takes a value and one pred".into());
        }
        Ok(value.clone())
    }
}

impl Operation for Withhold {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(at.cotangent.clone()), None])
    }
}

impl Lower for Withhold {
    /// A choice, which compilers do not look through as they do through barriers.
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let [value, never] = [0, 1].map(|input| inputs[input].name().to_owned());
        let zeros = emitter.splat(0.0, result);
        let types = format!("{}, {}", inputs[1].shape.mlir(), result.mlir());
        let text = format!("stablehlo.select {never}, {}, {value} : {types}", zeros.name());
        emitter.emit(&text, result)
    }
}
