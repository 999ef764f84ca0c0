//! The order of the passages of a list, weighted by its effect on a metric (Wang et al., 2018), as `LambdaLoss` has it.
//!
//! Programs have no sort. The rank of a passage is the number of those before it, and all sums are over pairs of
//! passages i and j, f32[n, K, K].

use std::f64::consts::LN_2;

use traind_xla::{DType, Tensor};

use super::PassagesLoss;
use super::passages::Passages;
use crate::error::Result;
use crate::model::LossSum;
use crate::tasks::embedding::never;
use crate::tasks::softplus::softplus;

/// Pairs of passages of which the first should have the higher score; the loss is their mean over the batch.
#[derive(Clone, Debug)]
pub struct Lambda {
    /// The passages of a row.
    pub passages: usize,
    /// The weight of a pair of passages.
    pub weighting: Weighting,
    /// Ranks that count: pairs with a passage among the first so many.
    pub k: Option<usize>,
    /// The factor of differences of scores.
    pub sigma: f64,
    /// The least gain of a list that is divided by.
    pub eps: f64,
    /// Whether logarithms have the base 2 instead of e.
    pub is_binary: bool,
}

/// The weight of a pair of passages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weighting {
    /// 1.
    None,
    /// The gain of the first passage over its discount (Wang et al., 2018).
    NdcgLoss1,
    /// The difference of gains, weighted by the distance of the ranks (Wang et al., 2018).
    NdcgLoss2,
    /// The difference of gains, times that of the inverse discounts (Burges et al., 2006).
    LambdaRank,
    /// `mu` times `NdcgLoss2`, and `LambdaRank`.
    NdcgLoss2pp {
        /// The factor of `NdcgLoss2`.
        mu: f64,
    },
}

impl PassagesLoss for Lambda {
    fn passages(&self) -> usize {
        self.passages
    }

    fn compares_rows(&self) -> bool {
        true
    }

    fn loss_of(&self, passages: &Passages<'_>) -> Result<LossSum> {
        let counts = passages.counts()?;
        let missing = never(&counts.le_scalar(0.0)?)?;
        let ranks = ranks(&passages.scores.add(&missing)?)?;
        let gains = self.gains(passages, &missing)?;
        let pairs = self.pairs(passages, &ranks)?;
        let differences = first(&passages.scores)?.sub(&second(&passages.scores)?)?;
        // log sigmoid(x) is the softplus of -x, negated.
        let losses = softplus(&differences.mul_scalar(-self.sigma)?)?;
        let losses = losses.mul(&self.weights(&gains, &ranks)?)?.mul(&pairs)?.sum(&[0, 1, 2])?;
        let losses = if self.is_binary { losses.mul_scalar(1.0 / LN_2)? } else { losses };
        let count = passages.texts.of_all(&pairs.sum(&[0, 1, 2])?)?.maximum_scalar(1.0)?;
        let rows = passages.texts.of_all(&passages.texts.weights.sum(&[0])?)?;
        Ok(LossSum {
            loss_sum: losses.div(&count)?.mul(&rows)?,
            weight_sum: passages.texts.weights.sum(&[0])?,
        })
    }
}

impl Lambda {
    /// The gain of each passage as a part of the best that its list can have, f32[n, K].
    fn gains(&self, passages: &Passages<'_>, missing: &Tensor) -> Result<Tensor> {
        let gains =
            passages.labels.maximum_scalar(0.0)?.mul_scalar(LN_2)?.exp()?.add_scalar(-1.0)?;
        let ranks = ranks(&passages.labels.add(missing)?)?;
        let discounted = gains.div(&discounts(&ranks)?)?.mul(&self.is_first(&ranks)?)?;
        let best = discounted.sum_keep(&[1])?.maximum_scalar(self.eps)?;
        Ok(gains.div(&best)?)
    }

    /// 1 for ranks that count.
    fn is_first(&self, ranks: &Tensor) -> Result<Tensor> {
        let k = self.k.unwrap_or(self.passages);
        Ok(ranks.lt_scalar(k as f64)?.convert(DType::F32)?)
    }

    /// 1 for each pair that counts: of passages that both are there, of which the first has the higher label.
    fn pairs(&self, passages: &Passages<'_>, ranks: &Tensor) -> Result<Tensor> {
        let counts = passages.counts()?;
        let both = first(&counts)?.mul(&second(&counts)?)?;
        let is_first = self.is_first(ranks)?;
        let either = first(&is_first)?.add(&second(&is_first)?)?.minimum_scalar(1.0)?;
        let pairs = both.mul(&either)?;
        if self.weighting == Weighting::NdcgLoss1 {
            return Ok(pairs);
        }
        let is_better = first(&passages.labels)?.gt(&second(&passages.labels)?)?;
        Ok(pairs.mul(&is_better.convert(DType::F32)?)?)
    }

    fn weights(&self, gains: &Tensor, ranks: &Tensor) -> Result<Tensor> {
        let discounts = discounts(ranks)?;
        match self.weighting {
            Weighting::None => Ok(first(gains)?.mul_scalar(0.0)?.add_scalar(1.0)?),
            Weighting::NdcgLoss1 => first(&gains.div(&discounts)?),
            Weighting::NdcgLoss2 => by_distance(gains, ranks),
            Weighting::LambdaRank => by_discounts(gains, &discounts),
            Weighting::NdcgLoss2pp { mu } => {
                let distance = by_distance(gains, ranks)?.mul_scalar(mu)?;
                Ok(distance.add(&by_discounts(gains, &discounts)?)?)
            }
        }
    }
}

/// The difference of gains by what a passage loses over the distance of the ranks.
fn by_distance(gains: &Tensor, ranks: &Tensor) -> Result<Tensor> {
    let distances = first(ranks)?.sub(&second(ranks)?)?.abs()?;
    let is_apart = distances.gt_scalar(0.0)?.convert(DType::F32)?;
    let [near, far] = [-1.0, 0.0].map(|shift| {
        // The first rank has the logarithm of 2; a distance of 0 does not count.
        discounts(&distances.add_scalar(shift)?.maximum_scalar(0.0)?)
    });
    let lost = near?.reciprocal()?.sub(&far?.reciprocal()?)?.abs()?;
    Ok(lost.mul(&is_apart)?.mul(&difference(gains)?)?)
}

/// The difference of gains and of what is left of them at the ranks.
fn by_discounts(gains: &Tensor, discounts: &Tensor) -> Result<Tensor> {
    Ok(difference(&discounts.reciprocal()?)?.mul(&difference(gains)?)?)
}

fn difference(x: &Tensor) -> Result<Tensor> {
    Ok(first(x)?.sub(&second(x)?)?.abs()?)
}

/// log2(2 + rank).
fn discounts(ranks: &Tensor) -> Result<Tensor> {
    Ok(ranks.add_scalar(2.0)?.log()?.mul_scalar(1.0 / LN_2)?)
}

/// The number of values before each in a descending order, f32[n, K]; of equal ones, the first comes first.
fn ranks(values: &Tensor) -> Result<Tensor> {
    let &[_, width] = values.dims() else { return Ok(values.clone()) };
    let (own, other) = (first(values)?, second(values)?);
    let trace = values.trace();
    let place = |axis| trace.iota(DType::S32, &[width, width], axis);
    let is_before = place(1)?.lt(&place(0)?)?.unsqueeze(0)?.convert(DType::F32)?;
    let is_equal = other.eq(&own)?.convert(DType::F32)?.mul(&is_before)?;
    let is_above = other.gt(&own)?.convert(DType::F32)?;
    Ok(is_above.add(&is_equal)?.sum(&[2])?)
}

/// The values of the first passage of each pair, [n, K, 1].
fn first(x: &Tensor) -> Result<Tensor> {
    Ok(x.unsqueeze(2)?)
}

/// The values of the second passage, [n, 1, K].
fn second(x: &Tensor) -> Result<Tensor> {
    Ok(x.unsqueeze(1)?)
}
