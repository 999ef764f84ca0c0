//! Matrix products as models write them.

use super::DotDims;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

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
        self.product_with_bias(weight, 1, bias)
    }

    /// A linear layer with the weight transposed: `x[…, in] · weight[in, out]`, plus `bias[out]`.
    pub fn linear_transposed(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        self.product_with_bias(weight, 0, bias)
    }
}
