//! The focal loss (Lin et al., 2017): cross entropies, each times a power of the probability of all but the label,
//! which is small where the model is right already. For several classes it is the mean of
//! `torchvision.ops.sigmoid_focal_loss` without `alpha`.

use std::sync::Arc;

use traind_xla::Tensor;

use super::{Compared, Formula, LabelsKind, Loss, LossSettings};
use crate::error::Result;

/// Below this probability a power of it counts as that of this one: its logarithm is finite.
const PROBABILITY_MIN: f64 = 1e-12;

struct Focal {
    gamma: f64,
}

pub(super) fn build(settings: &LossSettings) -> Result<Arc<dyn Formula>> {
    Ok(Arc::new(Focal { gamma: settings.arg(Loss::Focal, "gamma")? }))
}

impl Formula for Focal {
    fn values(&self, at: &Compared<'_>) -> Result<Tensor> {
        let entropy = at.cross_entropy()?;
        let focused = entropy.mul(&self.power(&missed(at, &entropy)?)?)?;
        match at.kind {
            LabelsKind::Classes => at.times_class_weights(focused),
            _ => Ok(focused.mean(&[1])?),
        }
    }
}

impl Focal {
    fn power(&self, probability: &Tensor) -> Result<Tensor> {
        let logarithm = probability.maximum_scalar(PROBABILITY_MIN)?.log()?;
        Ok(logarithm.mul_scalar(self.gamma)?.exp()?)
    }
}

/// The probability of all but the label, 1 - p.
fn missed(at: &Compared<'_>, entropy: &Tensor) -> Result<Tensor> {
    if at.kind == LabelsKind::Classes {
        return Ok(entropy.neg()?.exp()?.neg()?.add_scalar(1.0)?);
    }
    let (probability, flags) = (at.logits.values.logistic()?, at.labels);
    let both = probability.mul(flags)?.mul_scalar(2.0)?;
    Ok(probability.add(flags)?.sub(&both)?)
}
