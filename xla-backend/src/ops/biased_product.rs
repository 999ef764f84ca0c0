//! Products of two matrices plus a bias as one operation, which is what programs that call kernels record.
//!
//! M rows and N columns of the result, K depth.

use super::dot_general::DotGeneral;
use super::{Backward, DotDims, Lower, Op, Operation, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::{BiasedProduct as BiasedProductKernel, product};
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

/// In a smaller result, the loop that reads it adds the bias: alone, a loop such as that of tanh over the rows of a
/// batch is unrolled, and takes four times as long to compile.
const KERNEL_ELEMENTS_MIN: usize = 1 << 15;

/// Rows [M, K], a matrix and a bias [N] to the rows' products with the matrix, plus the bias [M, N].
#[derive(Debug)]
struct BiasedProduct(DotGeneral);

impl Tensor {
    /// The product of these rows with `matrix`, over the axis `axis` of it, plus `bias` `[N]`.
    pub(super) fn product_with_bias(
        &self,
        matrix: &Tensor,
        axis: usize,
        bias: Option<&Tensor>,
    ) -> Result<Tensor> {
        let dims = DotDims {
            lhs_contracting: vec![self.rank().saturating_sub(1)],
            rhs_contracting: vec![axis],
            ..DotDims::default()
        };
        match bias {
            None => self.dot_general(matrix, dims),
            Some(bias) if self.has_biased_product(matrix, bias) => {
                self.apply(BiasedProduct(DotGeneral { dims }), &[matrix, bias])
            }
            Some(bias) => self.dot_general(matrix, dims)?.add(bias),
        }
    }

    /// Whether a product of matrices with a bias is recorded as one operation.
    fn has_biased_product(&self, matrix: &Tensor, bias: &Tensor) -> bool {
        let dtypes = [matrix.dtype(), bias.dtype()];
        self.trace().calls_kernels()
            && matches!(self.dtype(), DType::F32 | DType::F64)
            && dtypes == [self.dtype(); 2]
            && [self.rank(), matrix.rank(), bias.rank()] == [2, 2, 1]
    }
}

impl Op for BiasedProduct {
    fn name(&self) -> &'static str {
        "biased_product"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [lhs, rhs, bias] = operands(inputs)?;
        let result = self.0.infer(&[lhs.clone(), rhs.clone()])?;
        match result.dims[..] {
            [_, columns] if *bias == result.with_dims([columns]) => Ok(result),
            _ => Err("takes two matrices and a bias for each column".into()),
        }
    }
}

impl Operation for BiasedProduct {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let mut gradients = self.0.gradient(&Backward { inputs: &at.inputs[..2], ..*at })?;
        gradients.push(Some(at.cotangent.column_sums()?));
        Ok(gradients)
    }
}

impl Lower for BiasedProduct {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let (factors, bias) = (&inputs[..2], &inputs[2]);
        let is_large = result.element_count() >= KERNEL_ELEMENTS_MIN;
        if let Some(axes) = self.0.kernel_axes(emitter, factors).filter(|_| is_large) {
            let depth = factors[0].shape.dims[axes[0]];
            let kernel = product::<BiasedProductKernel>(axes, depth, result);
            return emitter.call_kernel(&kernel, inputs, std::slice::from_ref(result));
        }
        let product = self.0.lower(emitter, factors, result);
        let bias = emitter.broadcast(bias, &[1], result);
        emitter.same_type("add", &[&product, &bias])
    }
}
