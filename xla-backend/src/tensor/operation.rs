//! The interface of operations that have gradients. The operations themselves are in [`crate::ops`].

use std::sync::Arc;

use super::Tensor;
use crate::error::{Error, Result};
use crate::graph::Parameter;
use crate::stablehlo::Lower;

/// An operation of a trace: with its gradient rule, besides its [shape rule](crate::graph::Op) and its
/// [lowering](Lower).
pub trait Operation: Lower {
    /// The cotangent of each input, or `None` where none flows.
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let _ = at;
        Err(Error::NotDifferentiable { op: self.name().to_owned() })
    }

    /// Returns `sum` plus the result for `inputs`, if the operation can add its result to a tensor in place. `sum` has
    /// the shape of the result, and may have a wider dtype.
    fn add_to(&self, sum: &Tensor, inputs: &[Tensor]) -> Result<Option<Tensor>> {
        let _ = (sum, inputs);
        Ok(None)
    }
}

/// Parameters have no operands to which a cotangent could flow.
impl Operation for Parameter {
    fn gradient(&self, _at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(Vec::new())
    }
}

impl From<Parameter> for Arc<dyn Operation> {
    fn from(parameter: Parameter) -> Self {
        Arc::new(parameter)
    }
}

/// The arguments of a gradient rule: a node's operands, its result and the cotangent of that.
#[derive(Debug)]
pub struct Backward<'a> {
    /// The operands of the operation.
    pub inputs: &'a [Tensor],
    /// Its result.
    pub output: &'a Tensor,
    /// The gradient of the loss by the result.
    pub cotangent: &'a Tensor,
}
