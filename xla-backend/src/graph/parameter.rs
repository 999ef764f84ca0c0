//! A program parameter: the current value of a variable, or an input.

use super::{Op, Problem, ResultStorage};
use crate::shape::Shape;

/// The operation of a program's parameter, which computes nothing.
#[derive(Debug)]
pub struct Parameter {
    /// The place among the program's parameters.
    pub index: usize,
    /// The shape of its value.
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
