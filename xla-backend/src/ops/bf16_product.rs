//! Products of float32 matrices whose operands are rounded to bfloat16, summed in float32: what training
//! in bfloat16 multiplies with where a kernel does so. All else, conversions of whole tensors included,
//! can then stay in float32.
//!
//! M rows and N columns of the result, K depth.

use super::{Backward, Lower, Op, Operation, Problem, ResultStorage};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::attributes::flag;
use crate::kernels::{Bf16Product as Bf16ProductKernel, KernelUse};
use crate::stablehlo::{Emitter, Value, list};
use crate::tensor::Tensor;

/// Matrices a and b, and a bias [N] if there is one, give op(a) op(b) + bias [M, N], where op transposes
/// the operands that are marked. Operands in float64 are not rounded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bf16Product {
    pub(super) transposed: [bool; 2],
}

impl Tensor {
    /// [`Tensor::linear`] of float32 tensors that are rounded to bfloat16 for the product.
    pub fn bf16_linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        self.bf16_product(weight, bias, [false, true])
    }

    /// `self` `[..., K]` by `rhs` `[K, N]`, rounded to bfloat16 for the product, plus `bias` `[N]`.
    pub fn bf16_matmul(&self, rhs: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        self.bf16_product(rhs, bias, [false, false])
    }

    /// The leading axes of `self` count as one.
    fn bf16_product(
        &self,
        rhs: &Tensor,
        bias: Option<&Tensor>,
        transposed: [bool; 2],
    ) -> Result<Tensor> {
        let operands: Vec<&Tensor> = [Some(rhs), bias].into_iter().flatten().collect();
        let product = Bf16Product { transposed };
        let Some((&depth, leading)) = self.dims().split_last().filter(|_| self.rank() != 2) else {
            return self.apply(product, &operands);
        };
        let rows = leading.iter().product();
        let result = self.reshape(&[rows, depth])?.apply(product, &operands)?;
        let columns = result.dims()[1];
        result.reshape(&[leading, &[columns]].concat())
    }
}

impl Bf16Product {
    /// M and K of the left operand, K and N of the right one.
    fn sizes(self, lhs: &Shape, rhs: &Shape) -> Result<[[usize; 2]; 2], Problem> {
        let of = |shape: &Shape, transposed: bool| match shape.dims[..] {
            [rows, columns] if transposed => Ok([columns, rows]),
            [rows, columns] => Ok([rows, columns]),
            _ => Err(Problem::from(format!("{shape} is not a matrix"))),
        };
        Ok([of(lhs, self.transposed[0])?, of(rhs, self.transposed[1])?])
    }

    /// The call of the kernel, for the left operand and the result.
    pub(super) fn kernel(self, [lhs, result]: [&Shape; 2], accumulates: bool) -> KernelUse {
        let depth = lhs.element_count() / result.dims[0].max(1);
        let flops = 2.0 * (depth * result.element_count()) as f64;
        let [lhs, rhs] = self.transposed.map(flag);
        let accumulates = flag(accumulates);
        let attributes =
            format!("lhs_transposed = {lhs}, rhs_transposed = {rhs}, accumulates = {accumulates}");
        KernelUse::of::<Bf16ProductKernel>(attributes).with_flops(flops)
    }

    /// The same product, as XLA computes it.
    fn lower_plainly(self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        let [lhs, rhs] = [0, 1].map(|index| rounded(emitter, &inputs[index]));
        let axis = |transposed: bool, untransposed: usize| match transposed {
            true => list(&[1 - untransposed]),
            false => list(&[untransposed]),
        };
        let [left, right] = [axis(self.transposed[0], 1), axis(self.transposed[1], 0)];
        let attributes =
            format!("contracting_dims = {left} x {right}, precision = [HIGHEST, HIGHEST]");
        let product = emitter.typed("dot_general", &[&lhs, &rhs], &attributes, result);
        let Some(bias) = inputs.get(2) else { return product };
        let bias = emitter.broadcast(bias, &[1], result);
        emitter.same_type("add", &[&product, &bias])
    }
}

/// The nearest bfloat16 numbers, in float32. A conversion there and back is one that XLA leaves out.
fn rounded(emitter: &mut Emitter, input: &Value) -> Value {
    if input.shape.dtype != DType::F32 {
        return input.clone();
    }
    let attributes = "exponent_bits = 8 : i32, mantissa_bits = 7 : i32";
    emitter.generic("reduce_precision", &[input], attributes, "", &input.shape)
}

impl Op for Bf16Product {
    fn name(&self) -> &'static str {
        "bf16_product"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let ([lhs, rhs] | [lhs, rhs, _]) = inputs else {
            return Err("takes two matrices, and a bias if there is one".into());
        };
        let [[rows, depth], [rhs_depth, columns]] = self.sizes(lhs, rhs)?;
        let is_f32 = matches!(lhs.dtype, DType::F32 | DType::F64) && lhs.dtype == rhs.dtype;
        if !is_f32 || depth != rhs_depth {
            return Err("takes float32 matrices of one depth".into());
        }
        if inputs.get(2).is_some_and(|bias| *bias != lhs.with_dims([columns])) {
            return Err("takes a bias for each column".into());
        }
        Ok(lhs.with_dims([rows, columns]))
    }
}

impl Operation for Bf16Product {
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (lhs, rhs, cotangent) = (&at.inputs[0], &at.inputs[1], at.cotangent);
        let product =
            |a: &Tensor, b: &Tensor, transposed| a.apply(Bf16Product { transposed }, &[b]);
        let [left, right] = self.transposed;
        let to_lhs = match left {
            false => product(cotangent, rhs, [false, !right]),
            true => product(rhs, cotangent, [right, true]),
        };
        let to_rhs = match right {
            false => product(lhs, cotangent, [!left, false]),
            true => product(cotangent, lhs, [true, left]),
        };
        let mut gradients = vec![Some(to_lhs?), Some(to_rhs?)];
        if at.inputs.len() > 2 {
            gradients.push(Some(cotangent.column_sums()?));
        }
        Ok(gradients)
    }

    fn add_to(&self, sum: &Tensor, inputs: &[Tensor]) -> Result<Option<Tensor>> {
        let is_kernel = sum.trace().calls_kernels() && sum.dtype() == DType::F32;
        match inputs {
            [lhs, rhs] if is_kernel => Ok(Some(sum.add_bf16_product(lhs, rhs, self.transposed)?)),
            _ => Ok(None),
        }
    }
}

impl Lower for Bf16Product {
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value {
        if !emitter.calls_kernels() || result.dtype != DType::F32 {
            return self.lower_plainly(emitter, inputs, result);
        }
        let kernel = self.kernel([&inputs[0].shape, result], false);
        emitter.call_kernel(&kernel, inputs, std::slice::from_ref(result))
    }
}
