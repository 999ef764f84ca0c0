//! Reshape: equal elements in row-major order under other dimensions.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{Dims, Shape};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Debug)]
struct Reshape {
    dims: Dims,
}

impl Tensor {
    /// The elements under other dimensions of equal product.
    pub fn reshape(&self, dims: &[usize]) -> Result<Tensor> {
        if self.dims() == dims {
            return Ok(self.clone());
        }
        self.apply(Reshape { dims: dims.to_vec() }, &[])
    }

    /// A new axis of size 1 before `axis`, which may be the rank.
    pub fn unsqueeze(&self, axis: usize) -> Result<Tensor> {
        let mut dims = self.dims().to_vec();
        dims.insert(axis.min(dims.len()), 1);
        self.reshape(&dims)
    }

    /// Removes `axis`, whose size must be 1.
    pub fn squeeze(&self, axis: usize) -> Result<Tensor> {
        let mut dims = self.dims().to_vec();
        if axis < dims.len() {
            dims.remove(axis);
        }
        self.apply(Reshape { dims }, &[])
    }
}

impl Op for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::View
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        let shape = x.with_dims(self.dims.clone());
        if shape.element_count() != x.element_count() {
            return Err(format!("{} elements cannot fill {shape}", x.element_count()).into());
        }
        Ok(shape)
    }
}

impl Operation for Reshape {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(at.cotangent.reshape(at.inputs[0].dims())?)])
    }
}

impl Lower for Reshape {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        emitter.typed("reshape", &[&inputs[0]], "", result)
    }
}
