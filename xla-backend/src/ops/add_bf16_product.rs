//! Adding a product of matrices that are rounded to bfloat16 to a sum in the memory of the sum, as gradients of weights
//! are accumulated.

use super::bf16_product::Bf16Product;
use super::composite::Composite;
use super::{Backward, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::KernelUse;
use crate::tensor::Tensor;

/// A matrix, and the operands of the product that is added to it.
#[derive(Clone, Copy, Debug)]
struct AddBf16Product(Bf16Product);

impl Tensor {
    /// Returns this matrix plus the product of two matrices, which are transposed as marked and rounded to bfloat16 for
    /// the product.
    pub fn add_bf16_product(
        &self,
        lhs: &Tensor,
        rhs: &Tensor,
        transposed: [bool; 2],
    ) -> Result<Tensor> {
        self.apply(AddBf16Product(Bf16Product { transposed }), &[lhs, rhs])
    }
}

impl Composite for AddBf16Product {
    fn name(&self) -> &'static str {
        "add_bf16_product"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::InPlace
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [sum, _, _] = operands(inputs)?;
        match self.0.infer(&inputs[1..])? == *sum {
            true => Ok(sum.clone()),
            false => Err("the product has another shape than the sum".into()),
        }
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        inputs[0].add(&inputs[1].apply(self.0, &[&inputs[2]])?)
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let [sum, lhs, _] = inputs else { return None };
        let kernel = || self.0.kernel([lhs, sum], true).in_place(vec![[0, 0]]);
        (sum.dtype == DType::F32).then(kernel)
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let of_product = self.0.gradient(&Backward { inputs: &at.inputs[1..], ..*at })?;
        Ok([vec![Some(at.cotangent.clone())], of_product].concat())
    }
}
