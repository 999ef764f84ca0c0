//! Activation functions. Half precision is computed in f32.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

use super::composite::Composite;
use super::{Backward, Problem, ResultStorage, check_float, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::{GeluBackward, GeluForward, KernelUse};
use crate::tensor::Tensor;

/// The operand of GELU and its result's cotangent give the operand's.
#[derive(Clone, Copy, Debug)]
struct GeluGradient;

#[derive(Clone, Copy, Debug)]
pub(super) enum Activation {
    Relu,
    Gelu,
    GeluTanh,
    Silu,
}

impl Tensor {
    /// max(x, 0); the gradient at 0 is 0.
    pub fn relu(&self) -> Result<Tensor> {
        self.apply(Activation::Relu, &[])
    }

    /// x Φ(x), with the error function (Hendrycks and Gimpel 2016).
    pub fn gelu(&self) -> Result<Tensor> {
        self.apply(Activation::Gelu, &[])
    }

    /// The tanh approximation of [`Tensor::gelu`]: `gelu_new` in Hugging Face.
    pub fn gelu_tanh(&self) -> Result<Tensor> {
        self.apply(Activation::GeluTanh, &[])
    }

    /// x / (1 + exp(-x)).
    pub fn silu(&self) -> Result<Tensor> {
        self.apply(Activation::Silu, &[])
    }
}

/// `value` where `x` is positive or NaN, which a maximum would hide on XLA's
/// CPU backend, and 0 elsewhere.
fn where_positive(x: &Tensor, value: &Tensor) -> Result<Tensor> {
    let zeros = x.trace().full(0.0, x.shape().clone())?;
    x.le(&zeros)?.select(&zeros, value)
}

/// Φ(x), the normal distribution's cumulative probability.
fn normal_cdf(x: &Tensor) -> Result<Tensor> {
    x.mul_scalar(FRAC_1_SQRT_2)?.erf()?.mul_scalar(0.5)?.add_scalar(0.5)
}

const CUBIC: f64 = 0.044715;

/// tanh(√(2/π) (x + 0.044715 x³)), and x².
fn gelu_tanh_parts(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let square = x.mul(x)?;
    let inner = square.mul_scalar(CUBIC)?.add_scalar(1.0)?.mul(x)?;
    Ok((inner.mul_scalar((2.0 / PI).sqrt())?.tanh()?, square))
}

impl Activation {
    fn value(self, x: &Tensor) -> Result<Tensor> {
        match self {
            Activation::Relu => where_positive(x, x),
            Activation::Gelu => normal_cdf(x)?.mul(x),
            Activation::GeluTanh => gelu_tanh_parts(x)?.0.mul_scalar(0.5)?.add_scalar(0.5)?.mul(x),
            Activation::Silu => x.logistic()?.mul(x),
        }
    }

    pub(super) fn backward(self, x: &Tensor, cotangent: &Tensor) -> Result<Tensor> {
        let slope = match self {
            Activation::Relu => return where_positive(x, cotangent),
            Activation::Gelu => gelu_slope(x)?,
            Activation::GeluTanh => gelu_tanh_slope(x)?,
            Activation::Silu => {
                let gate = x.logistic()?;
                gate.one_minus()?.mul(x)?.add_scalar(1.0)?.mul(&gate)?
            }
        };
        cotangent.mul(&slope)
    }
}

/// Φ(x) + x φ(x), where φ is the normal density.
fn gelu_slope(x: &Tensor) -> Result<Tensor> {
    let density = x.mul(x)?.mul_scalar(-0.5)?.exp()?;
    let density = density.mul_scalar(0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2)?;
    normal_cdf(x)?.add(&density.mul(x)?)
}

/// (1 + t) / 2 + x (1 - t²) u' / 2, where t = tanh(u).
fn gelu_tanh_slope(x: &Tensor) -> Result<Tensor> {
    let (tanh, square) = gelu_tanh_parts(x)?;
    let inner = square.mul_scalar(3.0 * CUBIC)?.add_scalar(1.0)?;
    let inner = inner.mul_scalar(0.5 * (2.0 / PI).sqrt())?;
    let steep = tanh.mul(&tanh)?.one_minus()?.mul(&inner)?.mul(x)?;
    tanh.mul_scalar(0.5)?.add_scalar(0.5)?.add(&steep)
}

impl Composite for Activation {
    fn name(&self) -> &'static str {
        match self {
            Activation::Relu => "relu",
            Activation::Gelu => "gelu",
            Activation::GeluTanh => "gelu_tanh",
            Activation::Silu => "silu",
        }
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    /// Whether the value of the error function, the tangent or the logistic function is kept.
    fn keeps_intermediate(&self) -> bool {
        !matches!(self, Activation::Relu)
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        check_float(x)?;
        Ok(x.clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        self.value(&inputs[0].widen()?)?.convert(inputs[0].dtype())
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let has_kernel = matches!(self, Activation::Gelu) && inputs[0].dtype == DType::F32;
        has_kernel.then(|| KernelUse::of::<GeluForward>(String::new()))
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        if matches!(self, Activation::Gelu) {
            return Ok(vec![Some(at.inputs[0].apply(GeluGradient, &[at.cotangent])?)]);
        }
        let gradient = self.backward(&at.inputs[0].widen()?, &at.cotangent.widen()?)?;
        Ok(vec![Some(gradient.convert(at.output.dtype())?)])
    }
}

impl Composite for GeluGradient {
    fn name(&self) -> &'static str {
        "gelu_gradient"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x, cotangent] = operands(inputs)?;
        check_float(x)?;
        if x != cotangent {
            return Err("takes an operand and a cotangent of one shape".into());
        }
        Ok(x.clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let gradient = Activation::Gelu.backward(&inputs[0].widen()?, &inputs[1].widen()?)?;
        gradient.convert(inputs[0].dtype())
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        (inputs[0].dtype == DType::F32).then(|| KernelUse::of::<GeluBackward>(String::new()))
    }
}
