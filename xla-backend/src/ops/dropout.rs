//! Dropout (Srivastava et al. 2014).

use super::Random;
use super::composite::Composite;
use super::{Backward, Problem, ResultStorage, check_float, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::tensor::Tensor;

/// Keeps an element where its random bits are below 2³² (1 - rate).
#[derive(Debug)]
struct Dropout {
    rate: f64,
}

impl Tensor {
    /// Each element 0 with probability `rate`, else divided by `1 - rate`. The
    /// backward pass draws the same bits again instead of keeping a mask.
    pub fn dropout(&self, rate: f64, random: &Random) -> Result<Tensor> {
        if rate == 0.0 {
            return Ok(self.clone());
        }
        self.dropped(rate, &random.bits(self.dims())?)
    }

    /// Dropout by these u32 bits, one for each element.
    pub(super) fn dropped(&self, rate: f64, bits: &Tensor) -> Result<Tensor> {
        self.apply(Dropout { rate }, &[bits])
    }
}

impl Composite for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x, bits] = operands(inputs)?;
        check_float(x)?;
        if !(0.0..1.0).contains(&self.rate) {
            return Err(format!("rate {} is not in 0..1", self.rate).into());
        }
        if *bits != x.with_dtype(DType::U32) {
            return Err("takes u32 bits for each element".into());
        }
        Ok(x.clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let (x, bits) = (&inputs[0], &inputs[1]);
        let kept = 1.0 - self.rate;
        let threshold = (kept * 2f64.powi(32)).round().min(f64::from(u32::MAX));
        let zeros = x.trace().full(0.0, x.shape().clone())?;
        bits.lt_scalar(threshold)?.select(&x.mul_scalar(1.0 / kept)?, &zeros)
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let gradient = at.cotangent.apply(Dropout { rate: self.rate }, &[&at.inputs[1]])?;
        Ok(vec![Some(gradient), None])
    }
}
