//! `torch.optim.Adagrad` (Duchi, Hazan and Singer, 2011) with decay as part of the gradient.

use super::{Optimizer, Settings, Slot, Update, Updated, check_weight_decay, decayed_gradient};
use crate::error::{Error, Result};
use crate::parameters::ParameterSpec;

/// Adagrad, as `torch.optim.Adagrad`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adagrad {
    weight_decay: f64,
    lr_decay: f64,
    eps: f64,
}

pub(super) fn build(settings: &Settings) -> Result<Box<dyn Optimizer>> {
    Ok(Box::new(Adagrad::new(settings)?))
}

impl Adagrad {
    /// Reads and checks the settings.
    pub(super) fn new(settings: &Settings) -> Result<Adagrad> {
        check_weight_decay(settings)?;
        Ok(Adagrad {
            weight_decay: settings.weight_decay,
            lr_decay: settings.arg("lr_decay", 0.0),
            eps: settings.arg("eps", 1e-10),
        })
    }
}

impl Optimizer for Adagrad {
    fn slots(&self, spec: &ParameterSpec) -> Vec<Slot> {
        vec![Slot::like(spec, "sum")]
    }

    fn scalar_names(&self) -> &'static [&'static str] {
        &["learning_rate", "weight_decay", "eps"]
    }

    fn scalars(&self, step: u64, learning_rate: f64) -> Vec<f32> {
        let learning_rate = learning_rate / (1.0 + (step - 1) as f64 * self.lr_decay);
        [learning_rate, self.weight_decay, self.eps].map(|scalar| scalar as f32).to_vec()
    }

    fn update(&self, at: &Update<'_>) -> Result<Updated> {
        let [sum] = at.slots else {
            return Err(Error::MissingInput { name: "sum".to_owned() });
        };
        let gradient = decayed_gradient(at)?;
        let sum = sum.add(&gradient.mul(&gradient)?)?;
        let denominator = sum.sqrt()?.add(at.scalars.get("eps")?)?;
        let movement = gradient.div(&denominator)?.mul(at.scalars.get("learning_rate")?)?;
        Ok(Updated { parameter: at.parameter.sub(&movement)?, slots: vec![sum] })
    }
}
