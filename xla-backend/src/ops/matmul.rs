//! Matrix products as models write them.

use super::DotDims;
use crate::error::{Error, Result};
use crate::graph::DType;
use crate::tensor::Tensor;

/// Rows that [`Tensor::sum_of_squares`] folds a large tensor into.
const FOLDED_ROWS: usize = 8;
/// Below this many elements folding gains nothing.
const FOLDED_ELEMENTS_MIN: usize = 1 << 14;

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

    /// Σ x² over all elements.
    ///
    /// A large tensor is folded into a few rows whose products with each other
    /// are taken, and the diagonal of those is summed: XLA's CPU backend sums
    /// products one by one, each waiting for the one before, but a product of
    /// matrices runs at full speed, though most of it is thrown away.
    pub fn sum_of_squares(&self) -> Result<Tensor> {
        let x = self.widen()?;
        let elements = x.shape().element_count();
        if elements < FOLDED_ELEMENTS_MIN || !elements.is_multiple_of(FOLDED_ROWS) {
            let axes: Vec<usize> = (0..x.rank()).collect();
            return x.contract(&x, &axes);
        }
        let rows = x.reshape(&[FOLDED_ROWS, elements / FOLDED_ROWS])?;
        let products = rows.contract(&rows, &[1])?;
        let index = |axis| self.trace().iota(DType::S32, &[FOLDED_ROWS, FOLDED_ROWS], axis);
        let diagonal = index(0)?.eq(&index(1)?)?;
        let zero = self.trace().scalar(0.0, products.dtype())?;
        diagonal.select(&products, &zero)?.sum(&[0, 1])
    }

    fn contract(&self, rhs: &Tensor, axes: &[usize]) -> Result<Tensor> {
        let dims = DotDims {
            lhs_contracting: axes.to_vec(),
            rhs_contracting: axes.to_vec(),
            ..DotDims::default()
        };
        self.dot_general(rhs, dims)
    }
}
