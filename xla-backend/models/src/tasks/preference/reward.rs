//! Reward models (Bradley and Terry, 1952) as TRL's RewardTrainer trains them: a classifier with one output gives the
//! chosen sequence of a pair a larger number than the rejected one.
//!
//! P pairs.

use traind_xla::mesh::Axis;
use traind_xla::ops::ReduceKind;
use traind_xla::{DType, Tensor};

use super::metrics::{Metric, columns};
use super::scalars::{by_pair, column, margins, square};
use super::{Compared, PreferenceObjective, Preferences};
use crate::error::Result;
use crate::tasks::sample_weights::weighted;
use crate::tasks::softplus::softplus;

/// The objective, under the names of TRL's RewardConfig. The batch's `labels` f32`[2P]` are the margins by which
/// rewards must differ, each twice.
#[derive(Clone, Debug)]
pub struct Reward {
    /// The weight of the squared sum of a pair's rewards (Eisenstein et al., 2023).
    pub center_rewards_coefficient: Option<f64>,
}

impl PreferenceObjective for Reward {
    fn metrics(&self) -> &'static [Metric] {
        const METRICS: [Metric; 5] = [
            Metric::of("min_reward"),
            Metric::of("mean_reward"),
            Metric::of("max_reward"),
            Metric::of("accuracy"),
            Metric::of("margin"),
        ];
        &METRICS
    }

    fn compare(&self, compared: &Compared<'_>) -> Result<Preferences> {
        let rewards = by_pair(&compared.policy.values.convert(DType::F32)?)?;
        let weights = compared.pair_weights()?;
        let margin = column(&by_pair(compared.batch.get("labels")?)?, 0)?;
        let mut losses = softplus(&margin.sub(&margins(&rewards)?)?)?;
        if let Some(coefficient) = self.center_rewards_coefficient {
            let sums = square(&rewards.sum(&[1])?)?;
            losses = losses.add(&sums.mul_scalar(coefficient)?)?;
        }
        let loss = weighted(&losses, &weights)?;
        let metrics = metrics(&rewards.stop_gradient()?, &weights, compared)?;
        Ok(Preferences { loss, metrics, weights })
    }
}

/// The metrics of each pair: of the smallest and the largest reward, those of the whole batch.
fn metrics(rewards: &Tensor, weights: &Tensor, compared: &Compared<'_>) -> Result<Tensor> {
    let extreme = |kind: ReduceKind| -> Result<Tensor> {
        let (none, reduced) = match kind {
            ReduceKind::Min => (f64::from(f32::MAX), rewards.min(&[1])?),
            _ => (f64::from(f32::MIN), rewards.max(&[1])?),
        };
        let none = rewards.trace().full(none, reduced.shape().clone())?;
        let of_rows = weights.gt_scalar(0.0)?.select(&reduced, &none)?;
        let of_core =
            if kind == ReduceKind::Min { of_rows.min(&[0])? } else { of_rows.max(&[0])? };
        let of_batch = of_core.all_reduce_over(kind, compared.mesh, &[Axis::Data])?;
        Ok(of_batch.broadcast_to(weights.dims())?)
    };
    let accuracy = column(rewards, 0)?.gt(&column(rewards, 1)?)?.convert(DType::F32)?;
    columns(&[
        extreme(ReduceKind::Min)?,
        rewards.mean(&[1])?,
        extreme(ReduceKind::Max)?,
        accuracy,
        margins(rewards)?,
    ])
}
