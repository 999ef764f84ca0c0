//! The update of AdamW (Loshchilov and Hutter 2017): decay first, decoupled from the gradient, then
//! Adam with bias correction.

use super::composite::Composite;
use super::{Problem, ResultStorage};
use crate::error::{Error, Result};
use crate::graph::{DType, Shape};
use crate::kernels::attributes::flag;
use crate::kernels::{AdamW as AdamWKernel, KernelUse};
use crate::tensor::Tensor;

/// The scalars of an update, the same for all parameters.
#[derive(Clone, Copy, Debug)]
pub struct AdamWScalars<'a> {
    /// The factor that gradients are multiplied with first.
    pub factor: &'a Tensor,
    /// The factor that decaying parameters are multiplied with first.
    pub decay_factor: &'a Tensor,
    /// 1 - beta1.
    pub one_minus_beta1: &'a Tensor,
    /// The share of the second moment that stays.
    pub beta2: &'a Tensor,
    /// 1 - beta2.
    pub one_minus_beta2: &'a Tensor,
    /// The learning rate over the bias correction of the first moment.
    pub step_size: &'a Tensor,
    /// The square root of the bias correction of the second moment.
    pub bias_correction2_sqrt: &'a Tensor,
    /// The number that keeps divisors from zero.
    pub epsilon: &'a Tensor,
}

/// A parameter, or a shard of one, before its update.
#[derive(Clone, Copy, Debug)]
pub struct AdamWUpdate<'a> {
    /// The first moment, f32 of the parameter's shape.
    pub exp_avg: &'a Tensor,
    /// The second moment, f32 of the parameter's shape.
    pub exp_avg_sq: &'a Tensor,
    /// The gradient, f32 of the parameter's shape.
    pub gradient: &'a Tensor,
    /// The numbers that all parameters of a group share, f32 scalars.
    pub scalars: AdamWScalars<'a>,
    /// Whether the parameter decays.
    pub decays: bool,
}

/// Parameter, both moments, gradient and eight scalars to parameter and moments anew.
#[derive(Clone, Copy, Debug)]
struct AdamW {
    decays: bool,
}

/// The operands before the scalars.
const STATE: usize = 4;
/// The number of scalars.
pub(super) const SCALARS: usize = 8;

impl<'a> AdamWScalars<'a> {
    /// The tensors in the order of the operands.
    pub(super) fn tensors(&self) -> [&'a Tensor; SCALARS] {
        let AdamWScalars { factor, decay_factor, one_minus_beta1, beta2, .. } = *self;
        let AdamWScalars { one_minus_beta2, step_size, bias_correction2_sqrt, epsilon, .. } = *self;
        [
            factor,
            decay_factor,
            one_minus_beta1,
            beta2,
            one_minus_beta2,
            step_size,
            bias_correction2_sqrt,
            epsilon,
        ]
    }

    /// Takes at least so many operands.
    pub(super) fn of_tensors(all: &'a [Tensor]) -> AdamWScalars<'a> {
        AdamWScalars {
            factor: &all[0],
            decay_factor: &all[1],
            one_minus_beta1: &all[2],
            beta2: &all[3],
            one_minus_beta2: &all[4],
            step_size: &all[5],
            bias_correction2_sqrt: &all[6],
            epsilon: &all[7],
        }
    }
}

impl AdamWUpdate<'_> {
    fn operands(&self) -> Vec<&Tensor> {
        let state = [self.exp_avg, self.exp_avg_sq, self.gradient];
        state.into_iter().chain(self.scalars.tensors()).collect()
    }
}

impl Tensor {
    /// The parameter after an update, and both moments.
    pub fn adamw(&self, update: &AdamWUpdate<'_>) -> Result<[Tensor; 3]> {
        let parameter = self.apply(AdamW { decays: update.decays }, &update.operands())?;
        let exp_avg = parameter.part(1, self.shape().clone())?;
        let exp_avg_sq = parameter.part(2, self.shape().clone())?;
        Ok([parameter, exp_avg, exp_avg_sq])
    }
}

/// Checks parameter, moments and gradient, and the scalars.
fn check(inputs: &[Shape]) -> Result<(), Problem> {
    let (Some(state), Some(scalars)) = (inputs.get(..STATE), inputs.get(STATE..STATE + SCALARS))
    else {
        return Err("takes a parameter, moments, a gradient and eight scalars".into());
    };
    let dtype = state[0].dtype;
    if !dtype.is_float() || state.iter().any(|shape| *shape != state[0]) {
        return Err("takes a parameter, moments and a gradient of one shape".into());
    }
    if scalars.iter().any(|scalar| *scalar != Shape::scalar(dtype)) {
        return Err(format!("takes scalars of {dtype}").into());
    }
    Ok(())
}

/// Parameter and moments anew.
fn updated(inputs: &[Tensor], decays: bool) -> Result<[Tensor; 3]> {
    let [parameter, exp_avg, exp_avg_sq, gradient, factor, decay_factor, scalars @ ..] = inputs
    else {
        return Err(Error::NotDifferentiable { op: "adamw".to_owned() });
    };
    let gradient = gradient.mul(factor)?;
    let change = gradient.sub(exp_avg)?.mul(&scalars[0])?;
    let exp_avg = exp_avg.add(&change)?;
    let square = gradient.mul(&gradient)?.mul(&scalars[2])?;
    let exp_avg_sq = exp_avg_sq.mul(&scalars[1])?.add(&square)?;
    let denominator = exp_avg_sq.sqrt()?.div(&scalars[4])?.add(&scalars[5])?;
    let movement = exp_avg.div(&denominator)?.mul(&scalars[3])?;
    let parameter = if decays { parameter.mul(decay_factor)? } else { parameter.clone() };
    Ok([parameter.sub(&movement)?, exp_avg, exp_avg_sq])
}

fn attributes(decays: bool) -> String {
    format!("decays = {}", flag(decays))
}

impl Composite for AdamW {
    fn name(&self) -> &'static str {
        "adamw"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        check(inputs)?;
        Ok(inputs[0].clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let [parameter, ..] = updated(inputs, self.decays)?;
        Ok(parameter)
    }

    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(updated(inputs, self.decays)?.into())
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let kernel = || KernelUse::of::<AdamWKernel>(attributes(self.decays));
        let aliases = vec![[0, 0], [1, 1], [2, 2]];
        (inputs[0].dtype == DType::F32).then(|| kernel().in_place(aliases))
    }
}
