//! Turning axes round.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, check_axes, operands};
use crate::error::Result;
use crate::graph::Shape;
use crate::stablehlo::{Emitter, Value, list};
use crate::tensor::Tensor;

#[derive(Debug)]
struct Reverse {
    axes: Vec<usize>,
}

impl Tensor {
    /// The last element first, along each of `axes`.
    pub fn reverse(&self, axes: &[usize]) -> Result<Tensor> {
        self.apply(Reverse { axes: axes.to_vec() }, &[])
    }
}

impl Op for Reverse {
    fn name(&self) -> &'static str {
        "reverse"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        check_axes(&self.axes, x)?;
        Ok(x.clone())
    }
}

impl Operation for Reverse {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(at.cotangent.reverse(&self.axes)?)])
    }
}

impl Lower for Reverse {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let (x, axes) = (inputs[0].name(), list(&self.axes));
        emitter.emit(&format!("stablehlo.reverse {x}, dims = {axes} : {}", result.mlir()), result)
    }
}
