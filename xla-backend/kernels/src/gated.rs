//! Gated activations (Shazeer 2020): the activation of one tensor times another one, and activations
//! alone that are written with the logistic function.

use crate::dispatch::vectorized;
use crate::math::{logistic, normal};

/// 1 / √(2π).
const DENSITY_AT_ZERO: f32 = 0.398_942_3;
/// 2 √(2/π): twice the argument of tanh, since (1 + tanh u) / 2 is the logistic function of 2 u.
const TWICE_ROOT: f32 = 1.595_769;
const CUBIC: f32 = 0.044_715;

/// The function of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x / (1 + exp(-x)).
    Silu,
    /// x Φ(x).
    Gelu,
    /// GELU with the approximation of Φ by tanh.
    GeluTanh,
}

#[inline(always)]
fn silu(x: f32) -> [f32; 2] {
    let share = logistic(x);
    [x * share, share * x.mul_add(1.0 - share, 1.0)]
}

#[inline(always)]
fn gelu(x: f32) -> [f32; 2] {
    let (below, density) = normal(x);
    [x * below, (x * DENSITY_AT_ZERO).mul_add(density, below)]
}

#[inline(always)]
fn gelu_tanh(x: f32) -> [f32; 2] {
    let square = x * x;
    let share = logistic(TWICE_ROOT * square.mul_add(CUBIC, 1.0) * x);
    let steepness = TWICE_ROOT * square.mul_add(3.0 * CUBIC, 1.0);
    [x * share, (x * steepness * share).mul_add(1.0 - share, share)]
}

#[inline(always)]
fn each_product(gate: &[f32], up: &[f32], to: &mut [f32], function: impl Fn(f32) -> [f32; 2]) {
    for ((to, &gate), up) in to.iter_mut().zip(gate).zip(up) {
        *to = function(gate)[0] * up;
    }
}

#[inline(always)]
fn each_gradient(
    gate: &mut [f32],
    up: &mut [f32],
    cotangent: &[f32],
    function: impl Fn(f32) -> [f32; 2],
) {
    for ((gate, up), cotangent) in gate.iter_mut().zip(up).zip(cotangent) {
        let [value, slope] = function(*gate);
        (*gate, *up) = (cotangent * *up * slope, cotangent * value);
    }
}

vectorized! {
    /// `to = activation(gate) up`.
    pub fn forward(activation: Activation, gate: &[f32], up: &[f32], to: &mut [f32]) {
        assert_eq!([gate.len(), up.len()], [to.len(); 2]);
        match activation {
            Activation::Silu => each_product(gate, up, to, silu),
            Activation::Gelu => each_product(gate, up, to, gelu),
            Activation::GeluTanh => each_product(gate, up, to, gelu_tanh),
        }
    }

    /// Replaces `gate` and `up` by their gradients, from the product's cotangent.
    pub fn backward(activation: Activation, gate: &mut [f32], up: &mut [f32], cotangent: &[f32]) {
        assert_eq!([gate.len(), up.len()], [cotangent.len(); 2]);
        match activation {
            Activation::Silu => each_gradient(gate, up, cotangent, silu),
            Activation::Gelu => each_gradient(gate, up, cotangent, gelu),
            Activation::GeluTanh => each_gradient(gate, up, cotangent, gelu_tanh),
        }
    }
}
