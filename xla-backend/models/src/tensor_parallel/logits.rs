//! Logits of which each core may have those of some classes alone.
//!
//! N rows or tokens, C classes, W classes of one core.

use traind_xla::ops::ReduceKind;
use traind_xla::ops::random::Random;
use traind_xla::{DType, Tensor};

use super::TensorCores;
use crate::error::Result;

/// Logits of all classes, or of those that this core has.
#[derive(Clone, Debug)]
pub struct Logits {
    /// f32[..., C or W].
    pub values: Tensor,
    share: Option<VocabularyShare>,
}

/// The tokens of the vocabulary that a core has: equal runs of ids, the last of which may be beyond the
/// vocabulary.
#[derive(Clone, Debug)]
pub(crate) struct VocabularyShare {
    cores: TensorCores,
    size: usize,
    width: usize,
    /// The first token of this core, an s32 scalar.
    first: Tensor,
}

impl From<Tensor> for Logits {
    fn from(values: Tensor) -> Logits {
        Logits { values, share: None }
    }
}

impl Logits {
    /// The logits of this core's `share`, whose last columns may stand for no token: f32[N, W].
    pub(crate) fn of_share(values: &Tensor, share: VocabularyShare) -> Result<Logits> {
        Ok(Logits { values: share.hide_padding(values, f64::from(f32::MIN))?, share: Some(share) })
    }

    /// The logits of `rows` rows of tokens: [B, S, C or W].
    pub(crate) fn by_row(&self, rows: usize) -> Result<Logits> {
        let width = self.width();
        self.reshape(&[rows, self.values.shape().element_count() / (rows * width), width])
    }

    /// The logits of all rows and tokens, one behind the other: [N, C or W].
    pub(crate) fn flatten(&self) -> Result<Logits> {
        let width = self.width();
        self.reshape(&[self.values.shape().element_count() / width, width])
    }

    /// The logits [N, C] of all classes.
    pub(crate) fn whole(&self) -> Result<Tensor> {
        let Some(share) = &self.share else { return Ok(self.values.clone()) };
        Ok(share.cores.join(&self.values, 1)?.slice(1, 0, share.size)?)
    }

    /// These, each times `factor`.
    pub(crate) fn times(&self, factor: f64) -> Result<Logits> {
        Ok(Logits { values: self.values.mul_scalar(factor)?, share: self.share.clone() })
    }

    fn reshape(&self, dims: &[usize]) -> Result<Logits> {
        Ok(Logits { values: self.values.reshape(dims)?, share: self.share.clone() })
    }

    /// The classes of this core.
    fn width(&self) -> usize {
        self.values.dims().last().copied().unwrap_or(1).max(1)
    }

    /// The number of classes on all cores.
    pub fn classes(&self) -> usize {
        self.share.as_ref().map_or(self.width(), |share| share.size)
    }

    /// The cross entropy of these [N, C] with labels s32[N], f32[N]; 0 where the label is no class.
    pub(crate) fn cross_entropy(&self, labels: &Tensor) -> Result<Tensor> {
        match &self.share {
            None => Ok(self.values.cross_entropy(labels)?),
            Some(share) => share.cross_entropy(&self.values, labels),
        }
    }

    /// log Σ exp of these [N, C] over all classes, f32[N].
    pub(crate) fn log_sum_exp(&self) -> Result<Tensor> {
        let Some(share) = &self.share else { return Ok(self.values.logsumexp(1)?) };
        let largest = share.largest(&self.values)?;
        let powers = self.values.sub(&largest)?.exp()?.sum(&[1])?;
        Ok(share.cores.fan_in(&powers)?.log()?.add(&largest.squeeze(1)?)?)
    }

    /// The mean of these [N, C] over all classes, f32[N].
    pub(crate) fn mean(&self) -> Result<Tensor> {
        let Some(share) = &self.share else { return Ok(self.values.mean(&[1])?) };
        let sum = share.hide_padding(&self.values, 0.0)?.sum(&[1])?;
        Ok(share.cores.fan_in(&sum)?.mul_scalar(1.0 / share.size as f64)?)
    }

    /// A class of each token, drawn with the probabilities that softmax gives these [N, C]: s32[N]. Nothing flows back
    /// through it.
    pub(crate) fn sample(&self, random: &Random) -> Result<Tensor> {
        let values = self.values.stop_gradient()?;
        let random = match &self.share {
            Some(share) => random.from_place(1, &share.first.convert(DType::U32)?),
            None => random.clone(),
        };
        let values = values.add(&random.gumbel(values.dims())?)?;
        Logits { values, share: self.share.clone() }.best_classes()
    }

    /// The class with the largest of these [N, C], s32[N]; the first of equals.
    pub(crate) fn best_classes(&self) -> Result<Tensor> {
        let Some(share) = &self.share else { return Ok(self.values.argmax(1)?) };
        let largest = self.values.max(&[1])?;
        let is_best = largest.eq(&share.cores.extreme(ReduceKind::Max, &largest)?)?;
        // Neuron reduces no integers; float32 holds the numbers of all classes exactly.
        let own = self.values.argmax(1)?.add(&share.first)?.convert(DType::F32)?;
        let none = own.trace().full(share.size as f64, own.shape().clone())?;
        let best = share.cores.extreme(ReduceKind::Min, &is_best.select(&own, &none)?)?;
        Ok(best.convert(DType::S32)?)
    }
}

impl VocabularyShare {
    /// The share of this core in a vocabulary of `size` tokens, of which it holds `width`.
    pub(crate) fn new(cores: &TensorCores, size: usize, width: usize) -> Result<VocabularyShare> {
        let first = cores.first_of(width)?;
        Ok(VocabularyShare { cores: cores.clone(), size, width, first })
    }

    /// The rows of a table [V, H] for ids s32[...], of which this core has its share, and zeros for the
    /// others: [..., H].
    pub(crate) fn look_up(&self, table: &Tensor, ids: &Tensor) -> Result<Tensor> {
        let place = self.place(ids)?;
        let is_own = place.ge_scalar(0.0)?.and(&place.lt_scalar(self.width as f64)?)?;
        let zero = ids.trace().scalar(0.0, DType::S32)?;
        let rows = table.take(&is_own.select(&place, &zero)?)?;
        let is_own = is_own.unsqueeze(ids.rank())?;
        let none = ids.trace().scalar(0.0, rows.dtype())?;
        Ok(is_own.select(&rows, &none)?)
    }

    fn cross_entropy(&self, logits: &Tensor, labels: &Tensor) -> Result<Tensor> {
        let (count, trace) = (labels.shape().element_count(), logits.trace());
        let below = logits.sub(&self.largest(logits)?)?;
        let none = trace.full(0.0, below.shape().clone())?;
        let own = self.place(labels)?.is_class(self.width)?.select(&below, &none)?.sum(&[1])?;
        let sums = trace.concatenate(&[&below.exp()?.sum(&[1])?, &own], 0)?;
        let sums = self.cores.fan_in(&sums)?;
        let (powers, own) = (sums.slice(0, 0, count)?, sums.slice(0, count, 2 * count)?);
        let losses = powers.log()?.sub(&own)?;
        let is_class = labels.ge_scalar(0.0)?.and(&labels.lt_scalar(self.size as f64)?)?;
        Ok(is_class.select(&losses, &trace.full(0.0, losses.shape().clone())?)?)
    }

    /// The largest logit of each row on all cores, [N, 1]. It takes no part in the gradient, since the
    /// results do not depend on it.
    fn largest(&self, logits: &Tensor) -> Result<Tensor> {
        self.cores.extreme(ReduceKind::Max, &logits.stop_gradient()?.max_keep(&[1])?)
    }

    /// The place of each id among those of this core.
    fn place(&self, ids: &Tensor) -> Result<Tensor> {
        Ok(ids.sub(&self.first)?)
    }

    /// `values` [..., W] with `number` in the columns that stand for no token.
    fn hide_padding(&self, values: &Tensor, number: f64) -> Result<Tensor> {
        if self.width * self.cores.count() == self.size {
            return Ok(values.clone());
        }
        let trace = values.trace();
        let place = trace.iota(DType::S32, values.dims(), values.rank() - 1)?;
        let token = place.add(&self.first)?;
        let is_token = token.lt_scalar(self.size as f64)?;
        Ok(is_token.select(values, &trace.scalar(number, values.dtype())?)?)
    }
}
