//! Repeating a tensor along axes, and NumPy's rule for two operands.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::{Error, Result};
use crate::graph::{Dims, Shape};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

/// Axis `i` of the operand becomes axis `axes[i]` of the result.
#[derive(Debug)]
struct BroadcastInDim {
    axes: Vec<usize>,
    dims: Dims,
}

impl Tensor {
    /// Repeats the tensor to `dims`, its axes aligned with the last ones.
    pub fn broadcast_to(&self, dims: &[usize]) -> Result<Tensor> {
        if self.dims() == dims {
            return Ok(self.clone());
        }
        let first = dims.len().saturating_sub(self.rank());
        let axes: Vec<usize> = (first..first + self.rank()).collect();
        self.broadcast_in_dim(&axes, dims)
    }

    /// Repeats the tensor to `dims`; its axis `i`, of the same size or of size
    /// 1, becomes axis `axes[i]`. `axes` increases.
    pub fn broadcast_in_dim(&self, axes: &[usize], dims: &[usize]) -> Result<Tensor> {
        self.apply(BroadcastInDim { axes: axes.to_vec(), dims: dims.to_vec() }, &[])
    }
}

/// The operands, both repeated to their common dimensions.
pub(super) fn broadcast_together(op: &str, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    if a.dims() == b.dims() {
        return Ok((a.clone(), b.clone()));
    }
    let dims = common_dims(a.dims(), b.dims()).ok_or_else(|| Error::Shape {
        op: op.to_owned(),
        problem: "dimensions do not broadcast together".to_owned(),
        inputs: vec![a.shape().clone(), b.shape().clone()],
    })?;
    Ok((a.broadcast_to(&dims)?, b.broadcast_to(&dims)?))
}

/// Declares a method of [`Tensor`] for each of some kinds of an operation on two operands, which are broadcast
/// together, and one for a number on the right.
macro_rules! methods_of_two {
    ($operation:ident: $($(#[$doc:meta])* $method:ident, $scalar:ident => $kind:ident;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                pub fn $method(&self, other: &Tensor) -> Result<Tensor> {
                    let name = $operation::$kind.name();
                    let (a, b) = $crate::ops::broadcast::broadcast_together(name, self, other)?;
                    a.apply($operation::$kind, &[&b])
                }

                #[doc = concat!("[`Tensor::", stringify!($method), "`] with one number on the right.")]
                pub fn $scalar(&self, other: f64) -> Result<Tensor> {
                    self.$method(&self.trace().full(other, self.shape().clone())?)
                }
            )*
        }
    };
}
pub(super) use methods_of_two;

/// NumPy's rule: aligned at the last axis, each pair equal or one of them 1.
fn common_dims(a: &[usize], b: &[usize]) -> Option<Dims> {
    let rank = a.len().max(b.len());
    let dim = |dims: &[usize], axis: usize| match (axis + dims.len()).checked_sub(rank) {
        Some(own) => dims[own],
        None => 1,
    };
    (0..rank)
        .map(|axis| match (dim(a, axis), dim(b, axis)) {
            (x, y) if x == y => Some(x),
            (x, 1) | (1, x) => Some(x),
            _ => None,
        })
        .collect()
}

impl Op for BroadcastInDim {
    fn name(&self) -> &'static str {
        "broadcast_in_dim"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        let refused = || format!("cannot become {:?} with axes {:?}", self.dims, self.axes);
        let increasing = self.axes.windows(2).all(|pair| pair[0] < pair[1]);
        if x.rank() != self.axes.len() || !increasing {
            return Err(refused().into());
        }
        for (&from, &axis) in x.dims.iter().zip(&self.axes) {
            let to = *self.dims.get(axis).ok_or_else(refused)?;
            if from != to && from != 1 {
                return Err(refused().into());
            }
        }
        Ok(x.with_dims(self.dims.clone()))
    }
}

impl Operation for BroadcastInDim {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let x = &at.inputs[0];
        let axes: Vec<usize> = (0..self.dims.len())
            .filter(|axis| match self.axes.iter().position(|own| own == axis) {
                Some(own) => x.dims()[own] != self.dims[*axis],
                None => true,
            })
            .collect();
        Ok(vec![Some(at.cotangent.sum(&axes)?.reshape(x.dims())?)])
    }
}

impl Lower for BroadcastInDim {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        emitter.broadcast(&inputs[0], &self.axes, result)
    }
}

#[cfg(test)]
mod tests {
    use super::common_dims;

    #[test]
    fn dimensions_broadcast_as_in_numpy() {
        assert_eq!(common_dims(&[2, 3], &[3]), Some(vec![2, 3]));
        assert_eq!(common_dims(&[2, 1, 4], &[5, 1]), Some(vec![2, 5, 4]));
        assert_eq!(common_dims(&[], &[2]), Some(vec![2]));
        assert_eq!(common_dims(&[0], &[1]), Some(vec![0]));
        assert_eq!(common_dims(&[2, 3], &[2]), None);
    }
}
