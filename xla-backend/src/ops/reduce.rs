//! Folding axes into one element each.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, check_axes, operands};
use crate::error::Result;
use crate::graph::{DType, Dims, Shape};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fold {
    Sum,
    Max,
    Min,
}

#[derive(Debug)]
struct Reduce {
    fold: Fold,
    axes: Vec<usize>,
}

impl Tensor {
    /// The sum over `axes`, which disappear. Half precision is summed in f32.
    pub fn sum(&self, axes: &[usize]) -> Result<Tensor> {
        self.reduce(Fold::Sum, axes)
    }

    /// The largest element along `axes`, which disappear.
    pub fn max(&self, axes: &[usize]) -> Result<Tensor> {
        self.reduce(Fold::Max, axes)
    }

    /// The smallest element along `axes`, which disappear.
    pub fn min(&self, axes: &[usize]) -> Result<Tensor> {
        self.reduce(Fold::Min, axes)
    }

    /// The mean over `axes`, which disappear.
    pub fn mean(&self, axes: &[usize]) -> Result<Tensor> {
        let sum = self.sum(axes)?;
        let count = self.shape().element_count() as f64 / sum.shape().element_count() as f64;
        sum.mul_scalar(1.0 / count)
    }

    /// [`Tensor::sum`] with `axes` kept at size 1.
    pub fn sum_keep(&self, axes: &[usize]) -> Result<Tensor> {
        self.keep(self.sum(axes)?, axes)
    }

    /// [`Tensor::max`] with `axes` kept at size 1.
    pub fn max_keep(&self, axes: &[usize]) -> Result<Tensor> {
        self.keep(self.max(axes)?, axes)
    }

    /// [`Tensor::mean`] with `axes` kept at size 1.
    pub fn mean_keep(&self, axes: &[usize]) -> Result<Tensor> {
        self.keep(self.mean(axes)?, axes)
    }

    fn reduce(&self, fold: Fold, axes: &[usize]) -> Result<Tensor> {
        if axes.is_empty() {
            return Ok(self.clone());
        }
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        self.apply(Reduce { fold, axes }, &[])
    }

    fn keep(&self, reduced: Tensor, axes: &[usize]) -> Result<Tensor> {
        let dims = self.dims().iter().enumerate();
        let dims: Dims =
            dims.map(|(axis, &dim)| if axes.contains(&axis) { 1 } else { dim }).collect();
        reduced.reshape(&dims)
    }
}

impl Reduce {
    /// A tensor of the result's dimensions, repeated along the reduced axes.
    fn spread(&self, tensor: &Tensor, dims: &[usize]) -> Result<Tensor> {
        let axes: Vec<usize> = (0..dims.len()).filter(|axis| !self.axes.contains(axis)).collect();
        tensor.broadcast_in_dim(&axes, dims)
    }

    /// The extreme elements share the cotangent equally, as in PyTorch.
    fn extreme_gradient(&self, at: &Backward<'_>) -> Result<Tensor> {
        let x = &at.inputs[0];
        let extreme = x.eq(&self.spread(at.output, x.dims())?)?.convert(x.dtype())?;
        let share = at.cotangent.div(&extreme.sum(&self.axes)?)?;
        extreme.mul(&self.spread(&share, x.dims())?)
    }

    fn initial(&self, dtype: DType) -> f64 {
        match self.fold {
            Fold::Sum => 0.0,
            Fold::Max => dtype.lowest(),
            Fold::Min => dtype.highest(),
        }
    }
}

impl Op for Reduce {
    fn name(&self) -> &'static str {
        match self.fold {
            Fold::Sum => "reduce_sum",
            Fold::Max => "reduce_max",
            Fold::Min => "reduce_min",
        }
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        check_axes(&self.axes, x)?;
        if x.dtype == DType::Pred {
            return Err("does not take pred".into());
        }
        let kept = (0..x.rank()).filter(|axis| !self.axes.contains(axis));
        Ok(x.with_dims(kept.map(|axis| x.dims[axis]).collect::<Dims>()))
    }
}

impl Operation for Reduce {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let gradient = match self.fold {
            Fold::Sum => self.spread(at.cotangent, at.inputs[0].dims())?,
            Fold::Max | Fold::Min => self.extreme_gradient(at)?,
        };
        Ok(vec![Some(gradient)])
    }
}

impl Lower for Reduce {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let x = &inputs[0];
        let initial = self.initial(result.dtype);
        match self.fold {
            Fold::Sum => {
                let wide = emitter.convert(x, result.dtype.accumulator());
                let sum = emitter.reduce("add", initial, &wide, &self.axes);
                emitter.convert(&sum, result.dtype)
            }
            Fold::Max => emitter.reduce("maximum", initial, x, &self.axes),
            Fold::Min => emitter.reduce("minimum", initial, x, &self.axes),
        }
    }
}
