//! The interface of operations that have a lowering.

use super::{Emitter, Value};
use crate::graph::{Op, Parameter};
use crate::shape::Shape;

/// An operation that writes itself as StableHLO.
pub trait Lower: Op {
    /// Writes the operation as StableHLO and returns the value of its result.
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value;
}

/// Unused: an emitter puts the argument in its place.
impl Lower for Parameter {
    fn lower(&self, _emitter: &mut Emitter, _inputs: &[Value], result: &Shape) -> Value {
        Value::named(format!("%arg{}", self.index), result.clone())
    }
}

/// Where an operation was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The number of the first value that it lowers to.
    pub first_value: usize,
    /// Dotted, as of a layer; empty outside of all.
    pub scope: String,
    /// The name of the operation that was recorded.
    pub operation: &'static str,
}
