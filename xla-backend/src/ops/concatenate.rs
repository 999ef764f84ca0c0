//! Joining tensors end to end.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, check_axis};
use crate::error::Result;
use crate::graph::Shape;
use crate::stablehlo::{Emitter, Value};
use crate::tensor::{Tensor, Trace};

#[derive(Debug)]
struct Concatenate {
    axis: usize,
}

impl Trace {
    /// The tensors one behind the other along `axis`; at least one.
    pub fn concatenate(&self, tensors: &[&Tensor], axis: usize) -> Result<Tensor> {
        self.apply(Concatenate { axis }, tensors)
    }
}

impl Op for Concatenate {
    fn name(&self) -> &'static str {
        "concatenate"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let first = inputs.first().ok_or("takes at least one operand")?;
        check_axis(self.axis, first)?;
        let mut joined = first.clone();
        joined.dims[self.axis] = 0;
        for input in inputs {
            let mut rest = input.clone();
            if let Some(size) = rest.dims.get_mut(self.axis) {
                joined.dims[self.axis] += std::mem::replace(size, 0);
            }
            let mut expected = joined.clone();
            expected.dims[self.axis] = 0;
            if rest != expected {
                return Err(format!("operands differ beside axis {}", self.axis).into());
            }
        }
        Ok(joined)
    }
}

impl Operation for Concatenate {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let mut start = 0;
        let mut gradients = Vec::new();
        for input in at.inputs {
            let limit = start + input.dims()[self.axis];
            gradients.push(Some(at.cotangent.slice(self.axis, start, limit)?));
            start = limit;
        }
        Ok(gradients)
    }
}

impl Lower for Concatenate {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let inputs: Vec<&Value> = inputs.iter().collect();
        emitter.typed("concatenate", &inputs, &format!("dim = {}", self.axis), result)
    }
}
