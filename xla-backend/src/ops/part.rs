//! The results of an operation beyond its first one.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage};
use crate::error::Result;
use crate::graph::Shape;
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

/// A result of its operand, which says in its own documentation which ones it has.
#[derive(Debug)]
struct Part {
    index: usize,
    shape: Shape,
}

impl Tensor {
    /// Result `index`, from 1, of the operation whose first result this is. No gradient
    /// flows through it.
    pub(super) fn part(&self, index: usize, shape: Shape) -> Result<Tensor> {
        self.apply(Part { index, shape }, &[])
    }
}

impl Op for Part {
    fn name(&self) -> &'static str {
        "part"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::WrittenWithOperand
    }

    fn infer(&self, _inputs: &[Shape]) -> Result<Shape, Problem> {
        Ok(self.shape.clone())
    }
}

impl Operation for Part {
    fn gradient(&self, _at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![None])
    }
}

impl Lower for Part {
    fn lower(&self, _emitter: &mut Emitter, inputs: &[Value], _result: &Shape) -> Value {
        inputs[0].part(self.index)
    }
}
