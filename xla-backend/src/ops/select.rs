//! Choosing between two values, element by element.

use super::broadcast::broadcast_together;
use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Debug)]
struct Select;

impl Tensor {
    /// `on_true` where this pred holds and `on_false` elsewhere, all three
    /// broadcast together.
    pub fn select(&self, on_true: &Tensor, on_false: &Tensor) -> Result<Tensor> {
        let (on_true, on_false) = broadcast_together(Select.name(), on_true, on_false)?;
        let (condition, on_true) = broadcast_together(Select.name(), self, &on_true)?;
        let on_false = on_false.broadcast_to(on_true.dims())?;
        condition.apply(Select, &[&on_true, &on_false])
    }

    /// Zeros instead of any values, NaN included. No compiler merges them with other zeros: XLA gives equal
    /// results of a program one buffer on GPUs, although each of them replaces an argument of its own.
    pub fn cleared(&self) -> Result<Tensor> {
        let zeros = self.trace().full(0.0, self.shape().clone())?;
        let never = self.gt_scalar(0.0)?.and(&self.lt_scalar(0.0)?)?;
        never.select(self, &zeros)
    }
}

impl Op for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [condition, on_true, on_false] = operands(inputs)?;
        if *condition != on_true.with_dtype(DType::Pred) || on_true != on_false {
            return Err("takes a pred and two operands of one type, all of one size".into());
        }
        Ok(on_true.clone())
    }
}

impl Operation for Select {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (condition, d) = (&at.inputs[0], at.cotangent);
        let zeros = d.trace().full(0.0, d.shape().clone())?;
        Ok(vec![None, Some(condition.select(d, &zeros)?), Some(condition.select(&zeros, d)?)])
    }
}

impl Lower for Select {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let [condition, on_true, on_false] = [0, 1, 2].map(|i| inputs[i].name().to_owned());
        let types = format!("{}, {}", inputs[0].shape.mlir(), result.mlir());
        let text = format!("stablehlo.select {condition}, {on_true}, {on_false} : {types}");
        emitter.emit(&text, result)
    }
}
