//! Lion (Chen et al., 2023, algorithm 2): the sign of an interpolated momentum, with decoupled decay.
//! Its rates are TrainingArguments' `adam_beta1` and `adam_beta2`.

use traind_xla::Tensor;

use super::{Optimizer, Settings, Slot, Update, Updated, check_betas, check_weight_decay};
use crate::error::{Error, Result};
use crate::parameters::ParameterSpec;

/// Lion, in float32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lion {
    weight_decay: f64,
    beta1: f64,
    beta2: f64,
}

pub(super) fn build(settings: &Settings) -> Result<Box<dyn Optimizer>> {
    Ok(Box::new(Lion::new(settings)?))
}

impl Lion {
    /// Reads and checks the settings.
    pub(super) fn new(settings: &Settings) -> Result<Lion> {
        check_betas(settings)?;
        check_weight_decay(settings)?;
        let Settings { weight_decay, adam_beta1: beta1, adam_beta2: beta2, .. } = *settings;
        Ok(Lion { weight_decay, beta1, beta2 })
    }
}

impl Optimizer for Lion {
    fn slots(&self, spec: &ParameterSpec) -> Vec<Slot> {
        vec![Slot::like(spec, "exp_avg")]
    }

    fn scalar_names(&self) -> &'static [&'static str] {
        &["learning_rate", "decay_factor", "beta1", "one_minus_beta1", "beta2", "one_minus_beta2"]
    }

    fn scalars(&self, _step: u64, learning_rate: f64) -> Vec<f32> {
        let Lion { weight_decay, beta1, beta2 } = *self;
        let decay_factor = 1.0 - learning_rate * weight_decay;
        let scalars = [learning_rate, decay_factor, beta1, 1.0 - beta1, beta2, 1.0 - beta2];
        scalars.map(|scalar| scalar as f32).to_vec()
    }

    fn update(&self, at: &Update<'_>) -> Result<Updated> {
        let [exp_avg] = at.slots else {
            return Err(Error::MissingInput { name: "exp_avg".to_owned() });
        };
        let (gradient, scalar) = (at.scaled_gradient()?, |name: &str| at.scalars.get(name));
        let mixed = |beta: &str, rest: &str| -> Result<Tensor> {
            Ok(exp_avg.mul(scalar(beta)?)?.add(&gradient.mul(scalar(rest)?)?)?)
        };
        let direction = sign(&mixed("beta1", "one_minus_beta1")?)?;
        let parameter = match at.weight_decay {
            true => at.parameter.mul(scalar("decay_factor")?)?,
            false => at.parameter.clone(),
        };
        let movement = direction.mul(scalar("learning_rate")?)?;
        let exp_avg = mixed("beta2", "one_minus_beta2")?;
        Ok(Updated { parameter: parameter.sub(&movement)?, slots: vec![exp_avg] })
    }
}

/// Returns 1, -1 or 0 for each element; NaN stays NaN.
fn sign(value: &Tensor) -> Result<Tensor> {
    let one = value.trace().scalar(1.0, value.dtype())?.broadcast_to(value.dims())?;
    let negative = value.lt_scalar(0.0)?.select(&one.neg()?, value)?;
    Ok(value.gt_scalar(0.0)?.select(&one, &negative)?)
}
