//! The results of a step.

use super::Launch;
use crate::error::Result;
use crate::step::{GRAD_NORM, LOSS, LOSS_SCALE, METRICS, UPDATED};

/// The results of a step, the same on every core.
#[derive(Clone, Debug, PartialEq)]
pub struct StepResults {
    /// The mean loss of the step's rows.
    pub loss: f64,
    /// The norm of all gradients, before they are clipped.
    pub grad_norm: f64,
    /// The task's metrics, in their order.
    pub metrics: Vec<f64>,
    /// Present where the loss is scaled.
    pub loss_scale: Option<LossScaleResult>,
}

/// The loss scale of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScaleResult {
    /// The scale for the next step.
    pub scale: f32,
    /// False where the update was skipped.
    pub updated: bool,
}

impl StepResults {
    /// Whether the update was skipped, since the gradients of the scaled loss were not finite.
    pub fn is_skipped(&self) -> bool {
        self.loss_scale.is_some_and(|scale| !scale.updated)
    }
}

impl Launch {
    /// Waits, then copies the results of the step that the programs ended.
    pub fn results(self) -> Result<StepResults> {
        let fetched = self.fetch()?;
        let loss = f64::from(fetched.scalar_f32(LOSS)?);
        let grad_norm = f64::from(fetched.scalar_f32(GRAD_NORM)?);
        let loss_scale = match fetched.scalar_f32(LOSS_SCALE) {
            Ok(scale) => {
                Some(LossScaleResult { scale, updated: fetched.scalar_f32(UPDATED)? != 0.0 })
            }
            Err(_) => None,
        };
        let metrics = match fetched.per_core(METRICS) {
            Ok(metrics) => metrics[0].to_f32()?.into_iter().map(f64::from).collect(),
            Err(_) => Vec::new(),
        };
        Ok(StepResults { loss, grad_norm, metrics, loss_scale })
    }
}
