//! Kahneman–Tversky optimization (Ethayarajh et al., 2024) as TRL's KTOTrainer computes it: a model learns which
//! completions are desirable and which are not, by how much more probable each is than to a frozen reference.
//!
//! P rows of the data. Each has a sequence, and behind it its prompt with the completion of another row, by which the
//! divergence from the reference is estimated.

use traind_xla::mesh::Axis;
use traind_xla::ops::ReduceKind;
use traind_xla::{DType, Tensor};

use super::completions::Completions;
use super::metrics::{Metric, columns};
use super::scalars::{by_pair, column};
use super::{Compared, PreferenceObjective, Preferences};
use crate::error::{Error, Result};
use crate::model::{InputDim, InputSpec, InputValues};
use crate::tasks::sample_weights::{sample_weights, weighted};

/// The input that is 1 for rows whose completion is desirable, and 0 for others.
const DESIRABLE: &str = "desirable";

/// The objective, under the names of TRL's KTOConfig.
#[derive(Clone, Debug)]
pub struct Kto {
    /// The weight of deviations from the reference.
    pub beta: f64,
    /// The weight of the losses of desirable completions.
    pub desirable_weight: f64,
    /// The weight of the losses of other completions.
    pub undesirable_weight: f64,
    /// Whether rewards are compared with the divergence, as in the loss `kto`, and not with 0, as in
    /// `apo_zero_unpaired` (D'Oosterlinck et al., 2024), whose rows have no second sequence.
    pub estimates_divergence: bool,
}

/// The columns that say whether a batch has desirable completions, undesirable ones and both.
const CHOSEN: usize = 6;
const REJECTED: usize = 7;
const BOTH: usize = 8;

impl PreferenceObjective for Kto {
    fn sequences(&self) -> usize {
        if self.estimates_divergence { 2 } else { 1 }
    }

    fn input(&self) -> Option<InputSpec> {
        let input = InputSpec::target(DESIRABLE, DType::F32, &[InputDim::Rows]);
        Some(input.of_values(InputValues::Flags))
    }

    fn metrics(&self) -> &'static [Metric] {
        const METRICS: [Metric; 6] = [
            Metric::of("kl"),
            Metric::where_present("rewards/chosen", CHOSEN),
            Metric::where_present("rewards/rejected", REJECTED),
            Metric::where_present("rewards/margins", BOTH),
            Metric::where_present("logps/chosen", CHOSEN),
            Metric::where_present("logps/rejected", REJECTED),
        ];
        &METRICS
    }

    fn columns(&self) -> usize {
        BOTH + 1
    }

    fn compare(&self, compared: &Compared<'_>) -> Result<Preferences> {
        let Compared { policy, batch, .. } = compared;
        let reference = compared.required_reference()?;
        let completions = Completions::new(policy, batch, None)?;
        let own = completions.row_log_probabilities(policy)?;
        let frozen = completions.row_log_probabilities(reference)?.stop_gradient()?;
        let ratios = self.of_rows(&own.sub(&frozen)?)?;
        let desirable = self.own(batch.get(DESIRABLE)?)?;
        let weights = self.own(&sample_weights(batch)?)?;
        let rows = Rows {
            rewards: column(&ratios, 0)?.mul_scalar(self.beta)?,
            log_probabilities: self.own(&own)?,
            desirable,
            weights,
        };
        let others = if self.estimates_divergence { Some(column(&ratios, 1)?) } else { None };
        let totals = rows.totals(others.as_ref(), compared)?;
        let divergence = totals.divergence()?;
        let loss = weighted(&self.losses(&rows, &divergence)?, &rows.weights)?;
        let metrics = totals.metrics(&divergence, &rows.weights)?;
        Ok(Preferences { loss, metrics, weights: rows.weights })
    }
}

impl Kto {
    /// Values of sequences by their rows: f32[P, 2], or f32[P, 1].
    fn of_rows(&self, values: &Tensor) -> Result<Tensor> {
        if self.estimates_divergence { by_pair(values) } else { Ok(values.unsqueeze(1)?) }
    }

    /// The values of the rows' own sequences, f32[P].
    fn own(&self, values: &Tensor) -> Result<Tensor> {
        column(&self.of_rows(values)?, 0)
    }

    /// The loss of each row, f32[P]: 1 - σ(r - β k) for a reward r beside the divergence k, or 1 - σ(β k - r) of a
    /// completion that is not desirable.
    fn losses(&self, rows: &Rows, divergence: &Tensor) -> Result<Tensor> {
        let distance = divergence.mul_scalar(self.beta)?.broadcast_to(rows.rewards.dims())?;
        let above = rows.rewards.sub(&distance)?;
        let is_desirable = rows.desirable.gt_scalar(0.5)?;
        let losses = is_desirable.select(&above.neg()?, &above)?.logistic()?;
        let weighted = |weight: f64| losses.mul_scalar(weight);
        let [desirable, undesirable] = [self.desirable_weight, self.undesirable_weight];
        Ok(is_desirable.select(&weighted(desirable)?, &weighted(undesirable)?)?)
    }
}

/// The rows of a core, f32[P] each.
struct Rows {
    rewards: Tensor,
    log_probabilities: Tensor,
    /// 1 where the completion is desirable, else 0.
    desirable: Tensor,
    /// 0 for empty slots.
    weights: Tensor,
}

impl Rows {
    /// Adds up the rows of all cores. `others` f32[P] are the log-ratios of completions of other rows.
    fn totals(&self, others: Option<&Tensor>, compared: &Compared<'_>) -> Result<Totals> {
        let chosen = self.weights.mul(&self.desirable)?;
        let rejected = self.weights.sub(&chosen)?;
        let sum = |values: &Tensor, weights: &Tensor| {
            Ok::<_, Error>(values.mul(weights)?.sum_keep(&[0])?.stop_gradient()?)
        };
        let one = self.weights.trace().full(1.0, self.weights.shape().clone())?;
        let zero = one.mul_scalar(0.0)?;
        let sums = [
            sum(others.unwrap_or(&zero), &self.weights)?,
            sum(&one, &self.weights)?,
            sum(&self.rewards, &chosen)?,
            sum(&self.log_probabilities, &chosen)?,
            sum(&one, &chosen)?,
            sum(&self.rewards, &rejected)?,
            sum(&self.log_probabilities, &rejected)?,
            sum(&one, &rejected)?,
        ];
        let sums = one.trace().concatenate(&sums.iter().collect::<Vec<_>>(), 0)?;
        let sums = sums.all_reduce_over(ReduceKind::Sum, compared.mesh, &[Axis::Data])?;
        Ok(Totals { sums })
    }
}

/// The sums over the rows of all cores, f32[8]: of the log-ratios of other completions, of weights, and of rewards,
/// log-probabilities and weights of the desirable and of the undesirable completions.
struct Totals {
    sums: Tensor,
}

impl Totals {
    fn at(&self, place: usize) -> Result<Tensor> {
        Ok(self.sums.slice(0, place, place + 1)?)
    }

    /// The quotient of two sums, f32[1]; 0 where the divisor is 0.
    fn mean(&self, place: usize, weights: usize) -> Result<Tensor> {
        let (sum, divisor) = (self.at(place)?, self.at(weights)?);
        let one = sum.trace().full(1.0, sum.shape().clone())?;
        Ok(sum.div(&divisor.gt_scalar(0.0)?.select(&divisor, &one)?)?)
    }

    /// The estimate of the divergence, at least 0, f32[1].
    fn divergence(&self) -> Result<Tensor> {
        Ok(self.mean(0, 1)?.maximum_scalar(0.0)?)
    }

    /// The metrics of the batch, the same for each of its rows.
    fn metrics(&self, divergence: &Tensor, rows: &Tensor) -> Result<Tensor> {
        let is_any = |place| Ok::<_, Error>(self.at(place)?.gt_scalar(0.0)?.convert(DType::F32)?);
        let [chosen, rejected] = [is_any(4)?, is_any(7)?];
        let both = chosen.mul(&rejected)?;
        let [reward, other_reward] = [self.mean(2, 4)?, self.mean(5, 7)?];
        let metrics = [
            divergence.clone(),
            reward.clone(),
            other_reward.clone(),
            reward.sub(&other_reward)?.mul(&both)?,
            self.mean(3, 4)?,
            self.mean(6, 7)?,
            chosen,
            rejected,
            both,
        ];
        let metrics = metrics.iter().map(|metric| metric.broadcast_to(rows.dims()));
        columns(&metrics.collect::<std::result::Result<Vec<_>, _>>()?)
    }
}
