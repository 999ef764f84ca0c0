//! Label smoothing as the Trainer's `LabelSmoother`: of the label's share,
//! `label_smoothing_factor` is spread evenly over all classes.
//!
//! N rows or tokens, C classes.

use traind_xla::{DType, Tensor};

use super::sample_weights::weighted;
use super::token_labels::TokenLabels;
use crate::error::{Error, Result};
use crate::model::{Batch, LossSum, OutputKind};
use crate::tensor_parallel::Logits;

/// Replaces a model's own loss, from the same logits.
#[derive(Clone, Copy, Debug)]
pub struct LabelSmoother {
    factor: f64,
}

impl LabelSmoother {
    /// `factor` is from 0 to 1.
    pub fn new(factor: f64) -> Result<LabelSmoother> {
        if (0.0..=1.0).contains(&factor) {
            return Ok(LabelSmoother { factor });
        }
        let name = "label_smoothing_factor";
        Err(Error::Setting { name, expected: "a number from 0 to 1", found: factor })
    }

    /// The loss of a model's logits. `None` where the batch holds no `labels`,
    /// as in question answering: then the model's own loss counts.
    pub fn loss(
        &self,
        kind: OutputKind,
        logits: &Logits,
        batch: &Batch,
    ) -> Result<Option<LossSum>> {
        if batch.optional("labels").is_some_and(|labels| labels.dtype() != DType::S32) {
            return Err(Error::UnsmoothableLabels);
        }
        let Some(counted) = TokenLabels::of_output(kind, batch)? else { return Ok(None) };
        weighted(&self.losses(&logits.flatten()?, &counted.labels)?, &counted.weights).map(Some)
    }

    /// Logits f32[N, C] and labels s32[N] to f32[N].
    fn losses(&self, logits: &Logits, labels: &Tensor) -> Result<Tensor> {
        let own = logits.cross_entropy(labels)?.mul_scalar(1.0 - self.factor)?;
        let all = logits.log_sum_exp()?.sub(&logits.mean()?)?;
        Ok(own.add(&all.mul_scalar(self.factor)?)?)
    }
}
