//! `torch.nn.functional.cross_entropy` with weights of classes and label smoothing: of the label's share,
//! `label_smoothing_factor` is spread evenly over all classes. Without weights of classes it is the Trainer's
//! `LabelSmoother`.

use std::sync::Arc;

use traind_xla::Tensor;

use super::{ClassWeights, Compared, Formula, LossSettings};
use crate::error::{Result, check_setting};

struct CrossEntropy {
    label_smoothing: f64,
}

pub(super) fn build(settings: &LossSettings) -> Result<Arc<dyn Formula>> {
    let label_smoothing = settings.label_smoothing;
    let is_share = |share: f64| (0.0..=1.0).contains(&share);
    check_setting("label_smoothing_factor", "a number from 0 to 1", label_smoothing, is_share)?;
    Ok(Arc::new(CrossEntropy { label_smoothing }))
}

impl Formula for CrossEntropy {
    fn values(&self, at: &Compared<'_>) -> Result<Tensor> {
        let own = at.times_class_weights(at.cross_entropy()?)?;
        if self.label_smoothing == 0.0 {
            return Ok(own);
        }
        let own = own.mul_scalar(1.0 - self.label_smoothing)?;
        Ok(own.add(&mean_over_classes(at)?.mul_scalar(self.label_smoothing)?)?)
    }
}

/// The mean of the cross entropies with each class as the label, each times its weight: f32[N].
fn mean_over_classes(at: &Compared<'_>) -> Result<Tensor> {
    let log_sum_exp = at.logits.log_sum_exp()?;
    let Some(ClassWeights { of_classes, .. }) = at.classes else {
        return Ok(log_sum_exp.sub(&at.logits.mean()?)?);
    };
    let logits = at.logits.whole()?.mul(&of_classes.unsqueeze(0)?)?.mean(&[1])?;
    Ok(log_sum_exp.mul(&of_classes.mean(&[0])?)?.sub(&logits)?)
}
