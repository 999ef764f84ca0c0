//! Gated activations (Shazeer 2020): the activation of one tensor times another one, as one operation,
//! which is what programs that call kernels record.

use super::activation::Activation;
use super::composite::Composite;
use super::{Backward, Problem, ResultStorage, check_float, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::attributes::integer;
use crate::kernels::{GatedBackward, GatedForward, KernelUse};
use crate::tensor::Tensor;

/// The activation of the gate: SwiGLU, and GeGLU with the error function or with tanh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// x · logistic(x).
    Silu,
    /// GELU by the error function.
    Gelu,
    /// GELU by its approximation with tanh.
    GeluTanh,
}

/// Gate and factor to their product.
#[derive(Clone, Copy, Debug)]
struct Gated(Gate);

/// Gate, factor and the product's cotangent to the gradients of gate and factor.
#[derive(Clone, Copy, Debug)]
struct GatedGradient(Gate);

impl Tensor {
    /// `gate(self) * up`.
    pub fn gated(&self, up: &Tensor, gate: Gate) -> Result<Tensor> {
        let has_kernel = matches!(self.dtype(), DType::F32 | DType::F64);
        if self.trace().calls_kernels() && has_kernel && self.shape() == up.shape() {
            return self.apply(Gated(gate), &[up]);
        }
        gate.value(self)?.mul(up)
    }
}

impl Gate {
    fn activation(self) -> Activation {
        match self {
            Gate::Silu => Activation::Silu,
            Gate::Gelu => Activation::Gelu,
            Gate::GeluTanh => Activation::GeluTanh,
        }
    }

    fn value(self, x: &Tensor) -> Result<Tensor> {
        x.apply(self.activation(), &[])
    }

    fn backward(self, x: &Tensor, cotangent: &Tensor) -> Result<Tensor> {
        self.activation().backward(x, cotangent)
    }

    /// Writes attributes as the kernel numbers them.
    fn attributes(self) -> String {
        let number = match self {
            Gate::Silu => 0,
            Gate::Gelu => 1,
            Gate::GeluTanh => 2,
        };
        format!("activation = {}", integer(number))
    }
}

impl Composite for Gated {
    fn name(&self) -> &'static str {
        "gated"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn keeps_intermediate(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [gate, up] = operands(inputs)?;
        check_float(gate)?;
        if gate != up {
            return Err("takes a gate and a factor of one shape".into());
        }
        Ok(gate.clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        self.0.value(&inputs[0])?.mul(&inputs[1])
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let is_f32 = inputs[0].dtype == DType::F32;
        is_f32.then(|| KernelUse::of::<GatedForward>(self.0.attributes()))
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let gradient = GatedGradient(self.0);
        let gate = at.inputs[0].apply(gradient, &[&at.inputs[1], at.cotangent])?;
        let up = gate.part(1, at.inputs[1].shape().clone())?;
        Ok(vec![Some(gate), Some(up)])
    }
}

impl Composite for GatedGradient {
    fn name(&self) -> &'static str {
        "gated_gradient"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [gate, up, cotangent] = operands(inputs)?;
        check_float(gate)?;
        if [up, cotangent] != [gate; 2] {
            return Err("takes a gate, a factor and a cotangent of one shape".into());
        }
        Ok(gate.clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        Ok(self.expand_all(inputs)?.remove(0))
    }

    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [gate, up, cotangent] = inputs else { return Ok(inputs.to_vec()) };
        let to_value = cotangent.mul(up)?;
        Ok(vec![self.0.backward(gate, &to_value)?, self.0.value(gate)?.mul(cotangent)?])
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let kernel = || KernelUse::of::<GatedBackward>(self.0.attributes());
        let is_f32 = inputs[0].dtype == DType::F32;
        is_f32.then(|| kernel().in_place(vec![[0, 0], [1, 1]]))
    }
}
