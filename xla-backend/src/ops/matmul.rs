//! Matrix products as models write them.

use super::DotDims;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Of the rows in which [`Tensor::sum_of_squares`] adds up a vector.
const ROW_ELEMENTS: usize = 1 << 10;

impl Tensor {
    /// The product over the last axis of this tensor and the last but one of
    /// `rhs`: `[…, M, K]` by `[…, K, N]` gives `[…, M, N]`, leading axes equal.
    pub fn matmul(&self, rhs: &Tensor) -> Result<Tensor> {
        let rank = self.rank();
        if rank < 2 || rank != rhs.rank() {
            return Err(Error::Shape {
                op: "matmul".to_owned(),
                problem: "takes two operands of one rank, at least 2".to_owned(),
                inputs: vec![self.shape().clone(), rhs.shape().clone()],
            });
        }
        let batch: Vec<usize> = (0..rank - 2).collect();
        let dims = DotDims {
            lhs_batch: batch.clone(),
            rhs_batch: batch,
            lhs_contracting: vec![rank - 1],
            rhs_contracting: vec![rank - 2],
        };
        self.dot_general(rhs, dims)
    }

    /// A linear layer with PyTorch's layout: `x[…, in] · weight[out, in]ᵀ`,
    /// plus `bias[out]`.
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let dims = DotDims {
            lhs_contracting: vec![self.rank().saturating_sub(1)],
            rhs_contracting: vec![1],
            ..DotDims::default()
        };
        let product = self.dot_general(weight, dims)?;
        match bias {
            Some(bias) => product.add(bias),
            None => Ok(product),
        }
    }

    /// Σ x² over all elements, summed axis by axis: in one float32 sum, small elements are lost
    /// to what millions before them came to, and no dot says in what order it adds.
    pub fn sum_of_squares(&self) -> Result<Tensor> {
        let x = self.widen()?.in_rows()?;
        let mut sums = x.mul(&x)?;
        for axis in (0..sums.rank()).rev() {
            sums = sums.sum(&[axis])?;
        }
        Ok(sums)
    }

    /// A long vector as rows, the last one filled up with zeros.
    fn in_rows(&self) -> Result<Tensor> {
        let elements = self.shape().element_count();
        if self.rank() != 1 || elements <= ROW_ELEMENTS {
            return Ok(self.clone());
        }
        let rows = elements.div_ceil(ROW_ELEMENTS);
        let filled = self.pad(0, 0, rows * ROW_ELEMENTS - elements, 0.0)?;
        filled.reshape(&[rows, ROW_ELEMENTS])
    }
}
