//! Reordering axes.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{Dims, Shape};
use crate::stablehlo::{Emitter, Value, list};
use crate::tensor::Tensor;

/// Axis `i` of the result is axis `permutation[i]` of the operand.
#[derive(Debug)]
struct Transpose {
    permutation: Vec<usize>,
}

impl Tensor {
    /// Axis `i` of the result is axis `permutation[i]` of this tensor.
    pub fn transpose(&self, permutation: &[usize]) -> Result<Tensor> {
        let identity = permutation.iter().copied().eq(0..self.rank());
        if identity {
            return Ok(self.clone());
        }
        self.apply(Transpose { permutation: permutation.to_vec() }, &[])
    }

    /// Exchanges two axes.
    pub fn swap_axes(&self, a: usize, b: usize) -> Result<Tensor> {
        let permutation: Vec<usize> = (0..self.rank())
            .map(|axis| match axis {
                _ if axis == a => b,
                _ if axis == b => a,
                _ => axis,
            })
            .collect();
        self.transpose(&permutation)
    }
}

impl Op for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }

    /// Dots read matrices in either order. Others are copied into the order that a dot reads.
    fn storage(&self) -> ResultStorage {
        if self.permutation.len() == 2 { ResultStorage::View } else { ResultStorage::Fused }
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        let mut sorted = self.permutation.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..x.rank()) {
            return Err(format!("{:?} does not order the axes", self.permutation).into());
        }
        let dims: Dims = self.permutation.iter().map(|&axis| x.dims[axis]).collect();
        Ok(x.with_dims(dims))
    }
}

impl Operation for Transpose {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let mut inverse = vec![0; self.permutation.len()];
        for (to, &from) in self.permutation.iter().enumerate() {
            inverse[from] = to;
        }
        Ok(vec![Some(at.cotangent.transpose(&inverse)?)])
    }
}

impl Lower for Transpose {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let attributes = format!("dims = {}", list(&self.permutation));
        emitter.typed("transpose", &[&inputs[0]], &attributes, result)
    }
}
