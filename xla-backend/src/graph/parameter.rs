//! A program parameter: the current value of a variable, or an input.

use super::{Op, Problem, ResultStorage};
use crate::shape::Shape;

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

    fn parameter_index(&self) -> Option<usize> {
        Some(self.index)
    }
}
