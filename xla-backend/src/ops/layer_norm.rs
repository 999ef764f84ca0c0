//! Normalization over the last axis (Ba et al. 2016; Zhang and Sennrich 2019).
//! Half precision is computed in f32, weights and all.

use super::composite::Composite;
use super::norm::Norm;
use super::{Backward, Problem, ResultStorage, check_float, operands};
use crate::error::Result;
use crate::graph::Shape;
use crate::tensor::Tensor;

/// (x - mean) / sqrt(variance + eps).
#[derive(Debug)]
struct Standardize {
    eps: f64,
}

/// x / sqrt(mean of squares + eps).
#[derive(Debug)]
struct RmsStandardize {
    eps: f64,
}

impl Tensor {
    /// `torch.nn.functional.layer_norm` over the last axis.
    pub fn layer_norm(&self, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
        if self.has_norm(&[weight, bias]) {
            let norm = Norm { epsilon: eps, centered: true, residual: false, dropout: 0.0 };
            return self.apply(norm, &[weight, bias]);
        }
        let standard = self.widen()?.apply(Standardize { eps }, &[])?;
        standard.mul(&weight.widen()?)?.add(&bias.widen()?)?.convert(self.dtype())
    }

    /// Root-mean-square normalization over the last axis.
    pub fn rms_norm(&self, weight: &Tensor, eps: f64) -> Result<Tensor> {
        if self.has_norm(&[weight]) {
            let norm = Norm { epsilon: eps, centered: false, residual: false, dropout: 0.0 };
            return self.apply(norm, &[weight]);
        }
        let standard = self.widen()?.apply(RmsStandardize { eps }, &[])?;
        standard.mul(&weight.widen()?)?.convert(self.dtype())
    }

    fn row_mean(&self) -> Result<Tensor> {
        self.mean_keep(&[self.rank() - 1])
    }
}

fn infer(inputs: &[Shape]) -> Result<Shape, Problem> {
    let [x] = operands(inputs)?;
    check_float(x)?;
    if x.rank() == 0 {
        return Err("there is no last axis".into());
    }
    Ok(x.clone())
}

impl Standardize {
    /// The deviations from the mean, and 1 / sqrt(variance + eps). The
    /// backward pass asks again; the compiler merges the two.
    fn parts(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let centered = x.sub(&x.row_mean()?)?;
        let variance = centered.mul(&centered)?.row_mean()?;
        Ok((centered, variance.add_scalar(self.eps)?.rsqrt()?))
    }
}

impl Composite for Standardize {
    fn name(&self) -> &'static str {
        "standardize"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        infer(inputs)
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let (centered, scale) = self.parts(&inputs[0])?;
        centered.mul(&scale)
    }

    /// scale (dy - mean(dy) - y mean(y dy)).
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (y, d) = (at.output, at.cotangent);
        let (_, scale) = self.parts(&at.inputs[0])?;
        let along = y.mul(&d.mul(y)?.row_mean()?)?;
        Ok(vec![Some(d.sub(&d.row_mean()?)?.sub(&along)?.mul(&scale)?)])
    }
}

impl RmsStandardize {
    fn scale(&self, x: &Tensor) -> Result<Tensor> {
        x.mul(x)?.row_mean()?.add_scalar(self.eps)?.rsqrt()
    }
}

impl Composite for RmsStandardize {
    fn name(&self) -> &'static str {
        "rms_standardize"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        infer(inputs)
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        inputs[0].mul(&self.scale(&inputs[0])?)
    }

    /// scale (dy - y mean(y dy)).
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (y, d) = (at.output, at.cotangent);
        let along = y.mul(&d.mul(y)?.row_mean()?)?;
        Ok(vec![Some(d.sub(&along)?.mul(&self.scale(&at.inputs[0])?)?)])
    }
}
