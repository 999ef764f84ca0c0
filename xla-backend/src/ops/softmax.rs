//! Exponentials normalized along an axis. Half precision is computed in f32.

use super::composite::Composite;
use super::{Backward, Problem, ResultStorage, check_axis, check_float, operands};
use crate::error::Result;
use crate::graph::Shape;
use crate::tensor::Tensor;

#[derive(Debug)]
struct Softmax {
    axis: usize,
}

#[derive(Debug)]
struct LogSoftmax {
    axis: usize,
}

#[derive(Debug)]
struct LogSumExp {
    axis: usize,
}

impl Tensor {
    /// exp(x) / Σ exp(x) along `axis`.
    pub fn softmax(&self, axis: usize) -> Result<Tensor> {
        self.apply(Softmax { axis }, &[])
    }

    /// x - log Σ exp(x) along `axis`.
    pub fn log_softmax(&self, axis: usize) -> Result<Tensor> {
        self.apply(LogSoftmax { axis }, &[])
    }

    /// log Σ exp(x) along `axis`, which disappears.
    pub fn logsumexp(&self, axis: usize) -> Result<Tensor> {
        self.apply(LogSumExp { axis }, &[])
    }
}

fn infer(inputs: &[Shape], axis: usize) -> Result<Shape, Problem> {
    let [x] = operands(inputs)?;
    check_float(x)?;
    check_axis(axis, x)?;
    Ok(x.clone())
}

/// The distance of each element to the largest of its row, and the logarithm of
/// the sum of those differences' exponentials, at size 1.
pub(super) fn below_largest(x: &Tensor, axis: usize) -> Result<(Tensor, Tensor)> {
    let below = x.sub(&x.max_keep(&[axis])?)?;
    let log = below.exp()?.sum_keep(&[axis])?.log()?;
    Ok((below, log))
}

impl Composite for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        infer(inputs, self.axis)
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let x = inputs[0].widen()?;
        let powers = x.sub(&x.max_keep(&[self.axis])?)?.exp()?;
        powers.div(&powers.sum_keep(&[self.axis])?)?.convert(inputs[0].dtype())
    }

    /// y (dy - Σ y dy).
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (y, d) = (at.output.widen()?, at.cotangent.widen()?);
        let along = y.mul(&d)?.sum_keep(&[self.axis])?;
        Ok(vec![Some(d.sub(&along)?.mul(&y)?.convert(at.output.dtype())?)])
    }
}

impl Composite for LogSoftmax {
    fn name(&self) -> &'static str {
        "log_softmax"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        infer(inputs, self.axis)
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let x = inputs[0].widen()?;
        let (below, log) = below_largest(&x, self.axis)?;
        below.sub(&log)?.convert(inputs[0].dtype())
    }

    /// dy - exp(y) Σ dy.
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (y, d) = (at.output.widen()?, at.cotangent.widen()?);
        let share = y.exp()?.mul(&d.sum_keep(&[self.axis])?)?;
        Ok(vec![Some(d.sub(&share)?.convert(at.output.dtype())?)])
    }
}

impl Composite for LogSumExp {
    fn name(&self) -> &'static str {
        "logsumexp"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let mut shape = infer(inputs, self.axis)?;
        shape.dims.remove(self.axis);
        Ok(shape)
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let x = inputs[0].widen()?;
        let (_, log) = below_largest(&x, self.axis)?;
        let sum = log.squeeze(self.axis)?.add(&x.max(&[self.axis])?)?;
        sum.convert(inputs[0].dtype())
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let weights = at.inputs[0].softmax(self.axis)?;
        Ok(vec![Some(weights.mul(&at.cotangent.unsqueeze(self.axis)?)?)])
    }
}
