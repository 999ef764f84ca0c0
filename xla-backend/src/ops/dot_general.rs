//! Products summed over axes: every matrix product.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Dims, Shape};
use crate::kernels::{Product, product};
use crate::stablehlo::{DotPrecision, Emitter, Value, list};
use crate::tensor::Tensor;

/// Which axes of the operands belong together. The result has the batch axes,
/// then the other axes of the left operand, then those of the right one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DotDims {
    /// Axes of the left operand kept pairwise with `rhs_batch`.
    pub lhs_batch: Vec<usize>,
    /// Axes of the right operand kept pairwise with `lhs_batch`.
    pub rhs_batch: Vec<usize>,
    /// Axes of the left operand summed pairwise with `rhs_contracting`.
    pub lhs_contracting: Vec<usize>,
    /// Axes of the right operand summed pairwise with `lhs_contracting`.
    pub rhs_contracting: Vec<usize>,
}

/// The axes of a product over the rows of two matrices, as the gradient of a weight is.
const OVER_ROWS: [usize; 2] = [0, 0];

/// In a smaller product, XLA's loops take the operations around it.
const KERNEL_MULTIPLICATIONS_MIN: usize = 1 << 18;

#[derive(Debug)]
pub(super) struct DotGeneral {
    pub(super) dims: DotDims,
}

impl Tensor {
    /// Sums products over the contracting axes: batch axes first, then the free axes of `self`,
    /// then those of `rhs`.
    pub fn dot_general(&self, rhs: &Tensor, dims: DotDims) -> Result<Tensor> {
        self.apply(DotGeneral { dims }, &[rhs])
    }
}

/// One operand of a product, in the gradient rule.
struct Side<'a> {
    tensor: &'a Tensor,
    batch: &'a [usize],
    contracting: &'a [usize],
    free: Vec<usize>,
}

impl<'a> Side<'a> {
    fn new(tensor: &'a Tensor, batch: &'a [usize], contracting: &'a [usize]) -> Side<'a> {
        let free = free_axes(tensor.rank(), batch, contracting);
        Side { tensor, batch, contracting, free }
    }
}

/// The axes in neither list, in order.
fn free_axes(rank: usize, batch: &[usize], contracting: &[usize]) -> Vec<usize> {
    (0..rank).filter(|axis| !batch.contains(axis) && !contracting.contains(axis)).collect()
}

impl DotGeneral {
    /// The axes that the product of two float32 matrices sums over; `None` for other products.
    fn axes_of_matrices<'a>(
        &self,
        mut inputs: impl Iterator<Item = &'a Shape>,
    ) -> Option<[usize; 2]> {
        let DotDims { lhs_contracting, rhs_contracting, lhs_batch, .. } = &self.dims;
        let (&[left], &[right]) = (&lhs_contracting[..], &rhs_contracting[..]) else { return None };
        let are_matrices = inputs.all(|shape| shape.rank() == 2 && shape.dtype == DType::F32);
        (are_matrices && lhs_batch.is_empty()).then_some([left, right])
    }

    /// The axes that a kernel sums over in a product of two matrices, where programs call it: always over the rows,
    /// which XLA would transpose first, and otherwise in a large product.
    pub(super) fn kernel_axes(&self, emitter: &Emitter, inputs: &[Value]) -> Option<[usize; 2]> {
        let axes = self.axes_of_matrices(inputs.iter().map(|input| &input.shape))?;
        if emitter.calls_kernels() && axes == OVER_ROWS {
            return Some(axes);
        }
        let columns = inputs[1].shape.dims[1 - axes[1]];
        let multiplications = inputs[0].shape.element_count() * columns;
        let is_large = multiplications >= KERNEL_MULTIPLICATIONS_MIN;
        (emitter.multiplies_by_kernel() && is_large).then_some(axes)
    }

    /// The gradient of the operand `wanted`, whose partner is `other`, and
    /// `theirs` the places of the partner's free axes in the cotangent. The
    /// order of the two factors is the one that leaves the fewest axes to
    /// transpose: none for the weight of a linear layer, either way round.
    fn side_gradient(
        cotangent: &Tensor,
        wanted: &Side<'_>,
        other: &Side<'_>,
        theirs: Vec<usize>,
    ) -> Result<Tensor> {
        let batch: Vec<usize> = (0..wanted.batch.len()).collect();
        let summed = axes_by_partner(wanted, other);
        let (product, order) = if wanted.free.first() < wanted.contracting.first() {
            let dims = DotDims {
                lhs_batch: batch,
                rhs_batch: other.batch.to_vec(),
                lhs_contracting: theirs,
                rhs_contracting: other.free.clone(),
            };
            let product = cotangent.dot_general(other.tensor, dims)?;
            (product, [wanted.batch, &wanted.free, &summed].concat())
        } else {
            let dims = DotDims {
                lhs_batch: other.batch.to_vec(),
                rhs_batch: batch,
                lhs_contracting: other.free.clone(),
                rhs_contracting: theirs,
            };
            let product = other.tensor.dot_general(cotangent, dims)?;
            (product, [wanted.batch, &summed, &wanted.free].concat())
        };
        product.transpose(&inverse(&order))
    }
}

/// The contracting axes of `wanted` in the order in which their partners
/// stand in `other`, which is how a product leaves them.
fn axes_by_partner(wanted: &Side<'_>, other: &Side<'_>) -> Vec<usize> {
    let mut pairs: Vec<(usize, usize)> =
        other.contracting.iter().copied().zip(wanted.contracting.iter().copied()).collect();
    pairs.sort_unstable();
    pairs.into_iter().map(|(_, own)| own).collect()
}

fn inverse(permutation: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; permutation.len()];
    for (to, &from) in permutation.iter().enumerate() {
        inverse[from] = to;
    }
    inverse
}

fn check_pairs(what: &str, lhs: &Shape, rhs: &Shape, pairs: [&[usize]; 2]) -> Result<(), Problem> {
    let [left, right] = pairs;
    if left.len() != right.len() {
        return Err(format!("{what} axes {left:?} and {right:?} are not pairs").into());
    }
    for (&l, &r) in left.iter().zip(right) {
        let sizes = (lhs.dims.get(l), rhs.dims.get(r));
        if sizes.0.is_none() || sizes.0 != sizes.1 {
            return Err(format!("{what} axes {l} and {r} do not match").into());
        }
    }
    Ok(())
}

fn check_distinct(batch: &[usize], contracting: &[usize]) -> Result<(), Problem> {
    let mut axes = [batch, contracting].concat();
    axes.sort_unstable();
    if axes.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("an axis is named twice".into());
    }
    Ok(())
}

impl Op for DotGeneral {
    fn name(&self) -> &'static str {
        "dot_general"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [lhs, rhs] = operands(inputs)?;
        let DotDims { lhs_batch, rhs_batch, lhs_contracting, rhs_contracting } = &self.dims;
        if lhs.dtype != rhs.dtype || lhs.dtype == DType::Pred {
            return Err("takes two operands of one numeric dtype".into());
        }
        check_pairs("batch", lhs, rhs, [lhs_batch, rhs_batch])?;
        check_pairs("contracting", lhs, rhs, [lhs_contracting, rhs_contracting])?;
        check_distinct(lhs_batch, lhs_contracting)?;
        check_distinct(rhs_batch, rhs_contracting)?;
        let batch = lhs_batch.iter().map(|&axis| lhs.dims[axis]);
        let left = free_axes(lhs.rank(), lhs_batch, lhs_contracting);
        let right = free_axes(rhs.rank(), rhs_batch, rhs_contracting);
        let left = left.into_iter().map(|axis| lhs.dims[axis]);
        let right = right.into_iter().map(|axis| rhs.dims[axis]);
        Ok(lhs.with_dims(batch.chain(left).chain(right).collect::<Dims>()))
    }
}

impl Operation for DotGeneral {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let DotDims { lhs_batch, rhs_batch, lhs_contracting, rhs_contracting } = &self.dims;
        let lhs = Side::new(&at.inputs[0], lhs_batch, lhs_contracting);
        let rhs = Side::new(&at.inputs[1], rhs_batch, rhs_contracting);
        let (first, middle) = (lhs_batch.len(), lhs_batch.len() + lhs.free.len());
        let left: Vec<usize> = (first..middle).collect();
        let right: Vec<usize> = (middle..at.output.rank()).collect();
        let to_lhs = Self::side_gradient(at.cotangent, &lhs, &rhs, right)?;
        let to_rhs = Self::side_gradient(at.cotangent, &rhs, &lhs, left)?;
        Ok(vec![Some(to_lhs), Some(to_rhs)])
    }

    fn add_to(&self, sum: &Tensor, inputs: &[Tensor]) -> Result<Option<Tensor>> {
        let is_kernel = sum.trace().calls_kernels() && sum.dtype() == DType::F32;
        match inputs {
            [lhs, rhs]
                if is_kernel
                    && self.axes_of_matrices(inputs.iter().map(Tensor::shape))
                        == Some(OVER_ROWS) =>
            {
                Ok(Some(sum.add_product(lhs, rhs)?))
            }
            _ => Ok(None),
        }
    }
}

impl Lower for DotGeneral {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        if let Some(axes) = self.kernel_axes(emitter, inputs) {
            let kernel = product::<Product>(axes, inputs[0].shape.dims[axes[0]], result);
            return emitter.call_kernel(&kernel, inputs, std::slice::from_ref(result));
        }
        let dims = &self.dims;
        let pair = |left: &[usize], right: &[usize]| format!("{} x {}", list(left), list(right));
        let batch = pair(&dims.lhs_batch, &dims.rhs_batch);
        let contracting = pair(&dims.lhs_contracting, &dims.rhs_contracting);
        let highest =
            result.dtype == DType::F32 && emitter.dot_precision() == DotPrecision::Highest;
        let precision = if highest { ", precision = [HIGHEST, HIGHEST]" } else { "" };
        let attributes =
            format!("batching_dims = {batch}, contracting_dims = {contracting}{precision}");
        emitter.typed("dot_general", &[&inputs[0], &inputs[1]], &attributes, result)
    }
}
