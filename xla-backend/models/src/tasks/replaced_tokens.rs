//! Detection of replaced tokens (ELECTRA, Clark et al., 2020): a generator predicts masked tokens, others are drawn in
//! their places by its predictions, and a discriminator says of each token whether it was replaced.
//!
//! Both losses are means over tokens of the batch of all cores: of those that were masked, and of all that are no
//! padding. A drawn token that is the original one was not replaced.
//!
//! B rows, S positions.

use traind_xla::mesh::Axis;
use traind_xla::ops::ReduceKind;
use traind_xla::{DType, Tensor};

use super::losses::cross_entropy_of_flags;
use super::preference::metrics::{Metric, columns};
use super::preference::{Compared, PreferenceObjective, Preferences};
use super::sample_weights::{sample_weights, weighted};
use crate::error::Result;
use crate::model::{Batch, InputDim, InputSpec};
use crate::tensor_parallel::Logits;

/// The numbers that [`crate::OutputKind::ReplacedTokens`] has of each token, in their order.
const LOGIT: usize = 0;
const IS_REPLACED: usize = 1;
const GENERATOR_LOSS: usize = 2;

/// The columns of counts, behind those of the metrics.
const MASKED: usize = 5;
const TOKENS: usize = 6;
const DETECTED: usize = 7;
const REPLACED: usize = 8;
const COLUMNS: usize = 9;

/// The sums of a core's batch by which losses are means, f32[B, 3], the same beside each row: of the rows' weights, of
/// these times their masked tokens, and of these times all of their tokens.
pub const BATCH_SUMS: &str = "batch_sums";

/// The input of these sums. A batch without them is whole; a micro-batch has those of the batch that it is a part of.
pub(crate) fn batch_sums_input() -> InputSpec {
    InputSpec::target(BATCH_SUMS, DType::F32, &[InputDim::Rows, InputDim::Size(3)])
}

/// The objective of generator and discriminator. It is that of rows which are one sequence each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplacedTokenDetection {
    /// The factor of the generator's loss.
    pub generator_weight: f64,
    /// The factor of the discriminator's loss, λ in the paper.
    pub discriminator_weight: f64,
}

/// The paper's weights.
impl Default for ReplacedTokenDetection {
    fn default() -> ReplacedTokenDetection {
        ReplacedTokenDetection { generator_weight: 1.0, discriminator_weight: 50.0 }
    }
}

impl PreferenceObjective for ReplacedTokenDetection {
    fn sequences(&self) -> usize {
        1
    }

    fn metrics(&self) -> &'static [Metric] {
        const METRICS: [Metric; 5] = [
            Metric::where_present("generator_loss", MASKED),
            Metric::where_present("discriminator_loss", TOKENS),
            Metric::where_present("discriminator_accuracy", TOKENS),
            Metric::where_present("discriminator_precision", DETECTED),
            Metric::where_present("discriminator_recall", REPLACED),
        ];
        &METRICS
    }

    fn columns(&self) -> usize {
        COLUMNS
    }

    fn compare(&self, compared: &Compared<'_>) -> Result<Preferences> {
        let rows = RowSums::of(compared.policy, compared.batch)?;
        let weights = sample_weights(compared.batch)?;
        let [generator, discriminator] = rows.factors(&weights, compared)?;
        let generator = rows.generator_loss.mul(&generator.mul_scalar(self.generator_weight)?)?;
        let discriminator =
            rows.discriminator_loss.mul(&discriminator.mul_scalar(self.discriminator_weight)?)?;
        let loss = weighted(&generator.add(&discriminator)?, &weights)?;
        Ok(Preferences { loss, metrics: rows.columns()?, weights })
    }
}

/// Sums over the tokens of each row, f32[B] each.
struct RowSums {
    generator_loss: Tensor,
    discriminator_loss: Tensor,
    /// Tokens of which the discriminator says the right thing.
    correct: Tensor,
    /// The number of replaced tokens that it detects.
    hits: Tensor,
    masked: Tensor,
    /// Tokens that are no padding.
    tokens: Tensor,
    /// Tokens that it takes for replaced ones.
    detected: Tensor,
    replaced: Tensor,
}

impl RowSums {
    fn of(output: &Logits, batch: &Batch) -> Result<RowSums> {
        let of_tokens =
            |place| Ok::<_, crate::Error>(output.values.slice(2, place, place + 1)?.squeeze(2)?);
        let (logits, is_replaced) = (of_tokens(LOGIT)?, of_tokens(IS_REPLACED)?);
        let flag = |flags: &Tensor| flags.convert(DType::F32);
        let is_token = flag(&batch.get("attention_mask")?.gt_scalar(0.0)?)?;
        let is_masked = flag(&batch.get("labels")?.ge_scalar(0.0)?)?;
        let is_detected = flag(&logits.gt_scalar(0.0)?)?.mul(&is_token)?;
        let is_correct = flag(&is_detected.eq(&is_replaced)?)?.mul(&is_token)?;
        let losses = cross_entropy_of_flags(&logits, &is_replaced)?;
        let sum = |values: &Tensor| Ok::<_, crate::Error>(values.sum(&[1])?);
        Ok(RowSums {
            generator_loss: sum(&of_tokens(GENERATOR_LOSS)?.mul(&is_masked)?)?,
            discriminator_loss: sum(&losses.mul(&is_token)?)?,
            correct: sum(&is_correct)?,
            hits: sum(&is_detected.mul(&is_replaced)?)?,
            masked: sum(&is_masked)?,
            tokens: sum(&is_token)?,
            detected: sum(&is_detected)?,
            replaced: sum(&is_replaced.mul(&is_token)?)?,
        })
    }

    /// The factors by which sums of losses of tokens become terms of a mean over rows, f32[1] each: the rows of all
    /// cores, divided by their masked tokens, and by all of their tokens.
    fn factors(&self, weights: &Tensor, compared: &Compared<'_>) -> Result<[Tensor; 2]> {
        let count = |values: &Tensor| values.mul(weights)?.sum_keep(&[0]);
        let own = [&weights.sum_keep(&[0])?, &count(&self.masked)?, &count(&self.tokens)?];
        let counts = match compared.batch.optional(BATCH_SUMS) {
            // Empty slots have zeros.
            Some(sums) => sums.max(&[0])?,
            None => weights.trace().concatenate(&own, 0)?,
        };
        let counts = counts.stop_gradient()?;
        let counts = counts.all_reduce_over(ReduceKind::Sum, compared.mesh, &[Axis::Data])?;
        let count = |place| counts.slice(0, place, place + 1);
        let rows = count(0)?;
        let per = |place| Ok::<_, crate::Error>(rows.div(&count(place)?.maximum_scalar(1.0)?)?);
        Ok([per(1)?, per(2)?])
    }

    /// f32[B, 9].
    fn columns(&self) -> Result<Tensor> {
        columns(&[
            self.generator_loss.clone(),
            self.discriminator_loss.clone(),
            self.correct.clone(),
            self.hits.clone(),
            self.hits.clone(),
            self.masked.clone(),
            self.tokens.clone(),
            self.detected.clone(),
            self.replaced.clone(),
        ])
    }
}
