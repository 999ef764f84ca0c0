//! What a graph asks of an operation. The operations themselves are in
//! [`crate::ops`].

use std::fmt;

use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

/// An operation: its shape rule, gradient rule and lowering. `Debug` prints its name and its
/// attributes, and two operations that print alike are alike.
pub trait Op: fmt::Debug + Send + Sync + 'static {
    /// The name in messages: StableHLO's where the operation is one of its own.
    fn name(&self) -> &'static str;

    /// The shape of the result, or what is wrong with the inputs.
    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem>;

    /// The cotangent of each input, or `None` where none flows.
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let _ = at;
        Err(Error::NotDifferentiable { op: self.name().to_owned() })
    }

    /// Writes the operation as StableHLO and returns the value of its result.
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value;

    /// Where the result is kept, for a plan of memory.
    fn storage(&self) -> ResultStorage;

    /// Whether its operands have to be in memory: it takes no other operation into itself.
    fn reads_memory(&self) -> bool {
        false
    }

    /// The argument number, for a program parameter.
    fn parameter_index(&self) -> Option<usize> {
        None
    }
}

/// Where the result of an operation is kept, as a plan of memory assumes it before a
/// compiler has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultStorage {
    /// Nowhere: what reads it computes it, or it is there anyhow.
    Fused,
    /// In memory of its own.
    Written,
    /// In that of its first operand, which it shows in another way.
    View,
}

/// Where the reverse walk stands: one node and the cotangent of its result.
#[derive(Debug)]
pub struct Backward<'a> {
    pub inputs: &'a [Tensor],
    pub output: &'a Tensor,
    pub cotangent: &'a Tensor,
}

/// Why a shape rule refuses its inputs; the graph adds operation and shapes.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem(pub String);

impl<T: Into<String>> From<T> for Problem {
    fn from(text: T) -> Problem {
        Problem(text.into())
    }
}
