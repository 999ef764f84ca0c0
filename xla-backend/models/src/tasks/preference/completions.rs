//! The completions of pairs: the tokens that count, and their log-probabilities.
//!
//! P pairs, S positions.

use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::ReduceKind;
use traind_xla::{DType, Tensor};

use super::scalars::{by_pair, column};
use crate::error::Result;
use crate::model::{Batch, IGNORED_LABEL, ReadTokens};
use crate::tasks::token_labels::{is_class, next};
use crate::tensor_parallel::Logits;

pub(super) struct Completions {
    /// The label behind each token, s32[2P, S].
    labels: Tensor,
    /// 1 where there is such a label, f32[2P, S].
    counted: Tensor,
    /// The weights of tokens in log-probabilities, where they differ, f32[2P, S].
    weights: Option<Tensor>,
    /// The number of tokens of each completion, at least 1: f32[2P].
    lengths: Tensor,
    /// The number of those that are behind another token, at least 1: f32[2P].
    predicted: Tensor,
    /// The tokens that have logits; none where all have.
    read: Option<ReadTokens>,
}

impl Completions {
    /// The completions of a batch's labels, whose tokens beyond the length of the pair's shorter one
    /// weigh `ld_alpha`.
    pub(super) fn new(
        logits: &Logits,
        batch: &Batch,
        ld_alpha: Option<f64>,
    ) -> Result<Completions> {
        let (whole, classes) = (batch.get("labels")?, logits.classes());
        let labels = next(whole)?;
        let counted = is_class(&labels, classes)?.convert(DType::F32)?;
        let lengths = counts(&is_class(whole, classes)?.convert(DType::F32)?)?;
        let predicted = counts(&counted)?;
        let weights = ld_alpha.map(|alpha| length_weights(&counted, alpha)).transpose()?;
        let read = ReadTokens::predicting_next(batch)?;
        Ok(Completions { labels, counted, weights, lengths, predicted, read })
    }

    /// The completions of labels that prompts have too, whose tokens weigh nothing in the log-probabilities of
    /// completions.
    pub(super) fn with_prompts(logits: &Logits, batch: &Batch) -> Result<Completions> {
        let completions = Completions::new(logits, batch, None)?;
        let (ids, mask) = (batch.get("input_ids")?, batch.get("attention_mask")?);
        let none = ids.trace().full(f64::from(IGNORED_LABEL), ids.shape().clone())?;
        let labels = next(&mask.gt_scalar(0.0)?.select(ids, &none)?)?;
        let counted = is_class(&labels, logits.classes())?.convert(DType::F32)?;
        let weights = Some(completions.counted);
        Ok(Completions { labels, counted, weights, ..completions })
    }

    /// The log-probability of each token with a label, and 0 for other tokens: f32[2P, S].
    pub(super) fn token_log_probabilities(&self, logits: &Logits) -> Result<Tensor> {
        let labels = self.labels.reshape(&[self.labels.shape().element_count()])?;
        let labels = match &self.read {
            Some(read) => read.numbers_of_all(&labels, f64::from(IGNORED_LABEL))?,
            None => labels,
        };
        self.by_row(&logits.flatten()?.cross_entropy(&labels)?.neg()?)
    }

    /// Values of the tokens that have logits, f32[N], as f32[2P, S], with zeros for other tokens.
    fn by_row(&self, values: &Tensor) -> Result<Tensor> {
        let values = match &self.read {
            Some(read) => read.to_all(&values.unsqueeze(1)?)?,
            None => values.clone(),
        };
        Ok(values.reshape(self.labels.dims())?)
    }

    /// The log-probability of the completion of each row, f32[2P].
    pub(super) fn row_log_probabilities(&self, logits: &Logits) -> Result<Tensor> {
        Ok(self.token_log_probabilities(logits)?.sum(&[1])?)
    }

    /// The log-probability of each completion, f32[P, 2]: the sum of those of its tokens.
    pub(super) fn log_probabilities(&self, tokens: &Tensor) -> Result<Tensor> {
        match &self.weights {
            Some(weights) => by_pair(&tokens.mul(weights)?.sum(&[1])?),
            None => by_pair(&tokens.sum(&[1])?),
        }
    }

    /// Values of the completions [P, 2], divided by their numbers of tokens.
    pub(super) fn means(&self, values: &Tensor) -> Result<Tensor> {
        Ok(values.div(&by_pair(&self.lengths)?)?)
    }

    /// Values of the completions [P, 2], divided by their numbers of tokens that are behind another one.
    pub(super) fn means_of_predicted(&self, values: &Tensor) -> Result<Tensor> {
        Ok(values.div(&by_pair(&self.predicted)?)?)
    }

    /// The mean loss of the tokens with labels of all chosen sequences of the batch, which the cores of `mesh` share,
    /// and whose pairs have `weights` f32[P]; the same for each pair, f32[P].
    pub(super) fn chosen_token_loss(
        &self,
        tokens: &Tensor,
        weights: &Tensor,
        mesh: &Mesh,
    ) -> Result<Tensor> {
        let chosen = |values: &Tensor| {
            let sums = column(&by_pair(&values.sum(&[1])?)?, 0)?;
            Ok::<_, crate::Error>(sums.mul(weights)?.sum_keep(&[0])?)
        };
        let sums = [chosen(&tokens.neg()?)?, chosen(&self.counted)?];
        let sums = tokens.trace().concatenate(&sums.iter().collect::<Vec<_>>(), 0)?;
        let sums = sums.all_reduce_over(ReduceKind::Sum, mesh, &[Axis::Data])?;
        let (losses, count) = (sums.slice(0, 0, 1)?, sums.slice(0, 1, 2)?);
        let mean = losses.div(&count.maximum_scalar(1.0)?)?;
        Ok(mean.broadcast_to(weights.dims())?)
    }

    /// The weight of each pair by how probable its completions are in themselves, f32[P]. Nothing
    /// flows back through it.
    pub(super) fn confidence(&self, logits: &Logits, tokens: &Tensor) -> Result<Tensor> {
        // log Σ p², by which the log-probability of a token is measured.
        let flat = logits.flatten()?;
        let squares = flat.times(2.0)?.log_sum_exp()?;
        let squares = squares.sub(&flat.log_sum_exp()?.mul_scalar(2.0)?)?;
        let aligned = tokens.sub(&self.by_row(&squares)?)?.mul(&self.counted)?;
        let lengths = self.counted.sum(&[1])?.maximum_scalar(1.0)?;
        let means = by_pair(&aligned.sum(&[1])?.div(&lengths)?)?;
        Ok(means.sum(&[1])?.exp()?.stop_gradient()?)
    }
}

/// The sums of the rows of `flags` f32[2P, S], at least 1: f32[2P].
fn counts(flags: &Tensor) -> Result<Tensor> {
    Ok(flags.sum(&[1])?.maximum_scalar(1.0)?)
}

/// 1 for the tokens of a completion up to the length of the pair's shorter one, and `alpha` behind:
/// f32[2P, S]. The tokens of a completion follow one another.
fn length_weights(counted: &Tensor, alpha: f64) -> Result<Tensor> {
    let &[rows, positions] = counted.dims() else { return Ok(counted.clone()) };
    let trace = counted.trace();
    let position = trace.iota(DType::F32, &[rows, positions], 1)?;
    let beyond = trace.full(positions as f64, position.shape().clone())?;
    let first = counted.gt_scalar(0.0)?.select(&position, &beyond)?.min(&[1])?;
    let lengths = by_pair(&counted.sum(&[1])?)?;
    let shorter = lengths.min(&[1])?.unsqueeze(1)?.broadcast_to(&[rows / 2, 2])?;
    let end = first.add(&shorter.reshape(&[rows])?)?.unsqueeze(1)?;
    let is_shared = position.lt(&end.broadcast_to(&[rows, positions])?)?;
    let one = trace.full(1.0, position.shape().clone())?;
    Ok(is_shared.select(&one, &one.mul_scalar(alpha)?)?)
}
