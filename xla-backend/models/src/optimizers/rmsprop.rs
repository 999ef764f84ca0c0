//! `torch.optim.RMSprop` (Tieleman and Hinton, 2012; centered as Graves, 2013) with decay as part of
//! the gradient.

use traind_xla::Tensor;

use super::{Optimizer, Settings, Slot, Update, Updated, check_weight_decay, decayed_gradient};
use crate::error::{Error, Result};
use crate::parameters::ParameterSpec;

/// RMSprop, as `torch.optim.RMSprop`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RmsProp {
    weight_decay: f64,
    alpha: f64,
    eps: f64,
    momentum: f64,
    centered: bool,
}

pub(super) fn build(settings: &Settings) -> Result<Box<dyn Optimizer>> {
    Ok(Box::new(RmsProp::new(settings)?))
}

impl RmsProp {
    /// Reads and checks the settings.
    pub(super) fn new(settings: &Settings) -> Result<RmsProp> {
        check_weight_decay(settings)?;
        Ok(RmsProp {
            weight_decay: settings.weight_decay,
            alpha: settings.arg("alpha", 0.99),
            eps: settings.arg("eps", 1e-8),
            momentum: settings.arg("momentum", 0.0),
            centered: settings.arg("centered", 0.0) != 0.0,
        })
    }

    /// The names of the slots, in their order.
    fn slot_names(&self) -> Vec<&'static str> {
        let optional = [("grad_avg", self.centered), ("momentum_buffer", self.momentum != 0.0)];
        let kept = optional.into_iter().filter(|(_, kept)| *kept).map(|(name, _)| name);
        std::iter::once("square_avg").chain(kept).collect()
    }

    fn slot<'a>(&self, at: &Update<'a>, name: &'static str) -> Result<Option<&'a Tensor>> {
        let Some(index) = self.slot_names().iter().position(|slot| *slot == name) else {
            return Ok(None);
        };
        let missing = || Error::MissingInput { name: name.to_owned() };
        at.slots.get(index).ok_or_else(missing).map(Some)
    }
}

/// The running mean of `value`.
fn averaged(at: &Update<'_>, mean: &Tensor, value: &Tensor) -> Result<Tensor> {
    let share = value.mul(at.scalars.get("one_minus_alpha")?)?;
    Ok(mean.mul(at.scalars.get("alpha")?)?.add(&share)?)
}

impl Optimizer for RmsProp {
    fn slots(&self, spec: &ParameterSpec) -> Vec<Slot> {
        self.slot_names().into_iter().map(|name| Slot::like(spec, name)).collect()
    }

    fn scalar_names(&self) -> &'static [&'static str] {
        &["learning_rate", "weight_decay", "alpha", "one_minus_alpha", "eps", "momentum"]
    }

    fn scalars(&self, _step: u64, learning_rate: f64) -> Vec<f32> {
        let RmsProp { weight_decay, alpha, eps, momentum, .. } = *self;
        let scalars = [learning_rate, weight_decay, alpha, 1.0 - alpha, eps, momentum];
        scalars.map(|scalar| scalar as f32).to_vec()
    }

    fn update(&self, at: &Update<'_>) -> Result<Updated> {
        let missing = || Error::MissingInput { name: "square_avg".to_owned() };
        let gradient = decayed_gradient(at)?;
        let square_avg = self.slot(at, "square_avg")?.ok_or_else(missing)?;
        let square_avg = averaged(at, square_avg, &gradient.mul(&gradient)?)?;
        let mut slots = vec![square_avg.clone()];
        let mut variance = square_avg;
        if let Some(grad_avg) = self.slot(at, "grad_avg")? {
            let grad_avg = averaged(at, grad_avg, &gradient)?;
            variance = variance.sub(&grad_avg.mul(&grad_avg)?)?;
            slots.push(grad_avg);
        }
        let mut direction = gradient.div(&variance.sqrt()?.add(at.scalars.get("eps")?)?)?;
        if let Some(buffer) = self.slot(at, "momentum_buffer")? {
            direction = buffer.mul(at.scalars.get("momentum")?)?.add(&direction)?;
            slots.push(direction.clone());
        }
        let movement = direction.mul(at.scalars.get("learning_rate")?)?;
        Ok(Updated { parameter: at.parameter.sub(&movement)?, slots })
    }
}
