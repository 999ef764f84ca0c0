//! A program parameter: the current value of a variable, or an input.

use super::{Backward, Op, Problem, ResultStorage};
use crate::error::Result;
use crate::shape::Shape;
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Debug)]
pub struct Parameter {
    pub index: usize,
    pub shape: Shape,
}

impl Op for Parameter {
    fn name(&self) -> &'static str {
        "parameter"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, _inputs: &[Shape]) -> Result<Shape, Problem> {
        Ok(self.shape.clone())
    }

    fn gradient(&self, _at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(Vec::new())
    }

    /// Unused: lowering puts the argument in its place.
    fn lower(&self, _emitter: &mut Emitter, _inputs: &[Value], result: &Shape) -> Value {
        Value::named(format!("%arg{}", self.index), result.clone())
    }

    fn parameter_index(&self) -> Option<usize> {
        Some(self.index)
    }
}
