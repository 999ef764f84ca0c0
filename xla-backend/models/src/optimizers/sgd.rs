//! `torch.optim.SGD` as the Trainer makes it: no momentum, and decay that is
//! part of the gradient.

use traind_xla::Shape;

use super::{Optimizer, Settings, Slot, Update, Updated, check_weight_decay};
use crate::error::Result;

#[derive(Clone, Copy, Debug)]
pub struct Sgd {
    weight_decay: f64,
}

pub(super) fn build(settings: &Settings) -> Result<Box<dyn Optimizer>> {
    Ok(Box::new(Sgd::new(settings)?))
}

impl Sgd {
    pub fn new(settings: &Settings) -> Result<Sgd> {
        check_weight_decay(settings)?;
        Ok(Sgd { weight_decay: settings.weight_decay })
    }
}

impl Optimizer for Sgd {
    fn slots(&self, _shape: &Shape) -> Vec<Slot> {
        Vec::new()
    }

    fn scalar_names(&self) -> &'static [&'static str] {
        &["learning_rate", "weight_decay"]
    }

    fn scalars(&self, _step: u64, learning_rate: f64) -> Vec<f32> {
        vec![learning_rate as f32, self.weight_decay as f32]
    }

    fn update(&self, at: &Update<'_>) -> Result<Updated> {
        let gradient = match at.weight_decay {
            true => at.gradient.add(&at.parameter.mul(at.scalars.get("weight_decay")?)?)?,
            false => at.gradient.clone(),
        };
        let movement = gradient.mul(at.scalars.get("learning_rate")?)?;
        Ok(Updated { parameter: at.parameter.sub(&movement)?, slots: Vec::new() })
    }
}
