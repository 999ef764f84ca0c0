//! `torch.optim.SGD` as the Trainer makes it: decay is part of the gradient, and `optim_args` may
//! give a momentum.

use traind_xla::Tensor;

use super::{Optimizer, Settings, Slot, Update, Updated, check_weight_decay, decayed_gradient};
use crate::error::{Error, Result, check_setting};
use crate::parameters::ParameterSpec;

/// Stochastic gradient descent with momentum, as `torch.optim.SGD`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sgd {
    weight_decay: f64,
    momentum: f64,
    dampening: f64,
    nesterov: bool,
}

pub(super) fn build(settings: &Settings) -> Result<Box<dyn Optimizer>> {
    Ok(Box::new(Sgd::new(settings)?))
}

impl Sgd {
    /// Reads and checks the settings.
    pub(super) fn new(settings: &Settings) -> Result<Sgd> {
        check_weight_decay(settings)?;
        let own = |name: &str| settings.arg(name, 0.0);
        let [momentum, dampening, nesterov] = ["momentum", "dampening", "nesterov"].map(own);
        let is_off = |nesterov: f64| nesterov == 0.0;
        if momentum == 0.0 {
            check_setting("nesterov", "0 without momentum", nesterov, is_off)?;
        }
        if dampening != 0.0 {
            check_setting("nesterov", "0 beside dampening", nesterov, is_off)?;
        }
        let (weight_decay, nesterov) = (settings.weight_decay, nesterov != 0.0);
        Ok(Sgd { weight_decay, momentum, dampening, nesterov })
    }

    fn has_momentum(&self) -> bool {
        self.momentum != 0.0
    }

    /// Returns the direction of the update and the new momentum.
    fn accelerated(&self, at: &Update<'_>, gradient: &Tensor) -> Result<(Tensor, Tensor)> {
        let [buffer] = at.slots else {
            return Err(Error::MissingInput { name: "momentum_buffer".to_owned() });
        };
        let momentum = at.scalars.get("momentum")?;
        let share = gradient.mul(at.scalars.get("gradient_share")?)?;
        let buffer = buffer.mul(momentum)?.add(&share)?;
        let direction = match self.nesterov {
            true => gradient.add(&buffer.mul(momentum)?)?,
            false => buffer.clone(),
        };
        Ok((direction, buffer))
    }
}

impl Optimizer for Sgd {
    fn slots(&self, spec: &ParameterSpec) -> Vec<Slot> {
        let buffer = self.has_momentum().then(|| Slot::like(spec, "momentum_buffer"));
        buffer.into_iter().collect()
    }

    fn scalar_names(&self) -> &'static [&'static str] {
        &["learning_rate", "weight_decay", "momentum", "gradient_share"]
    }

    /// The first gradient is the first momentum, without dampening.
    fn scalars(&self, step: u64, learning_rate: f64) -> Vec<f32> {
        let gradient_share = if step == 1 { 1.0 } else { 1.0 - self.dampening };
        let scalars = [learning_rate, self.weight_decay, self.momentum, gradient_share];
        scalars.map(|scalar| scalar as f32).to_vec()
    }

    fn update(&self, at: &Update<'_>) -> Result<Updated> {
        let gradient = decayed_gradient(at)?;
        let (direction, slots) = match self.has_momentum() {
            true => {
                let (direction, buffer) = self.accelerated(at, &gradient)?;
                (direction, vec![buffer])
            }
            false => (gradient, Vec::new()),
        };
        let movement = direction.mul(at.scalars.get("learning_rate")?)?;
        Ok(Updated { parameter: at.parameter.sub(&movement)?, slots })
    }
}
