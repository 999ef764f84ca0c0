//! Adding a value to a sum in the memory of the sum, as gradients are accumulated.

use super::composite::Composite;
use super::{Backward, DotDims, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::{KernelUse, Product, product};
use crate::tensor::Tensor;

/// A matrix `[M, N]`, and `[K, M]` and `[K, N]`, whose product over `K` is added to it.
#[derive(Clone, Copy, Debug)]
struct AddProduct;

impl Tensor {
    /// Returns the sum with `addend`, which nothing else reads. If the operation that computes `addend` can
    /// [add its result](super::Operation::add_to) to a tensor, it adds it to this one, so that `addend` is never in
    /// memory.
    pub(crate) fn accumulated(&self, addend: &Tensor) -> Result<Tensor> {
        match addend.added_in_place(self)? {
            Some(sum) => Ok(sum),
            None => self.add(&addend.convert(self.dtype())?),
        }
    }

    /// Returns `sum` plus this tensor, if the operation that computes it can [add its
    /// result](super::Operation::add_to).
    pub(super) fn added_in_place(&self, sum: &Tensor) -> Result<Option<Tensor>> {
        let node = self.trace().graph().node(self.node()).clone();
        let inputs: Vec<Tensor> = node.inputs.iter().map(|id| self.trace().tensor(*id)).collect();
        node.op.add_to(sum, &inputs)
    }

    /// Returns this matrix `[M, N]` plus the product of `lhs` `[K, M]` and `rhs` `[K, N]` over their rows.
    pub fn add_product(&self, lhs: &Tensor, rhs: &Tensor) -> Result<Tensor> {
        self.apply(AddProduct, &[lhs, rhs])
    }
}

/// The product of two matrices over these axes of theirs.
fn contract(lhs: &Tensor, rhs: &Tensor, [left, right]: [usize; 2]) -> Result<Tensor> {
    let (lhs_contracting, rhs_contracting) = (vec![left], vec![right]);
    lhs.dot_general(rhs, DotDims { lhs_contracting, rhs_contracting, ..DotDims::default() })
}

impl Composite for AddProduct {
    fn name(&self) -> &'static str {
        "add_product"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::InPlace
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [sum, lhs, rhs] = operands(inputs)?;
        let (&[depth, rows], &[other_depth, columns]) = (&lhs.dims[..], &rhs.dims[..]) else {
            return Err("takes matrices".into());
        };
        if depth != other_depth || sum.dims[..] != [rows, columns] {
            return Err("the matrices do not match".into());
        }
        if inputs.iter().any(|shape| shape.dtype != sum.dtype || !shape.dtype.is_float()) {
            return Err("takes matrices of one floating-point dtype".into());
        }
        Ok(sum.clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        inputs[0].add(&contract(&inputs[1], &inputs[2], [0, 0])?)
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let [sum, lhs, _] = inputs else { return None };
        let kernel = || product::<Product>([0, 0], lhs.dims[0], sum).in_place(vec![[0, 0]]);
        (sum.dtype == DType::F32).then(kernel)
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let [_, lhs, rhs] = at.inputs else { return Ok(vec![None; at.inputs.len()]) };
        let to_lhs = contract(rhs, at.cotangent, [1, 1])?;
        let to_rhs = contract(lhs, at.cotangent, [1, 0])?;
        Ok(vec![Some(at.cotangent.clone()), Some(to_lhs), Some(to_rhs)])
    }
}
