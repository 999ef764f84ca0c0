//! In-batch negatives (van den Oord et al., 2018), as `MultipleNegativesRankingLoss` has it: the anchor of a row should
//! be more similar to its positive than to the positives and negatives of all rows.

use std::ops::RangeInclusive;

use traind_xla::Tensor;

use super::texts::never;
use super::{EmbeddedTexts, EmbeddingLoss, Hardness, RowLabels, Similarity};
use crate::error::Result;
use crate::model::LossSum;

/// Anchors, positives and any number of negatives. The negatives of a row are the texts of all rows that all cores and
/// hosts have of a batch.
#[derive(Clone, Debug)]
pub struct MultipleNegativesRanking {
    /// The number that similarities are multiplied by.
    pub scale: f64,
    /// The similarity of two embeddings.
    pub similarity: Similarity,
    /// The texts that are ranked, and those that they are ranked for.
    pub directions: Directions,
    /// Whether each direction is normalized by itself, and the loss is their mean.
    pub per_direction: bool,
    /// The negatives that weigh more by their similarities; none where all weigh alike.
    pub hardness: Option<Hardness>,
}

/// The texts that are compared, besides anchors with positives and negatives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directions {
    /// Anchors with other anchors.
    pub query_to_query: bool,
    /// Positives with anchors.
    pub doc_to_query: bool,
    /// Positives with those, and with the negatives, of other rows.
    pub doc_to_doc: bool,
}

impl EmbeddingLoss for MultipleNegativesRanking {
    fn texts(&self) -> RangeInclusive<usize> {
        2..=usize::MAX
    }

    fn labels(&self) -> RowLabels {
        RowLabels::None
    }

    fn compares_rows(&self) -> bool {
        true
    }

    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum> {
        let Scores { positive, directions } = self.scores(texts)?;
        let log_sum = match self.per_direction {
            true => mean_of(&directions)?,
            false => {
                let all: Vec<&Tensor> = directions.iter().collect();
                positive.trace().concatenate(&all, 1)?.logsumexp(1)?
            }
        };
        texts.sum(&log_sum.sub(&positive)?)
    }
}

/// The scores of this core's rows.
struct Scores {
    /// The scores of anchors and their positives, f32[n].
    positive: Tensor,
    /// The scores of each direction, f32[n, _].
    directions: Vec<Tensor>,
}

impl MultipleNegativesRanking {
    fn scores(&self, texts: &EmbeddedTexts<'_>) -> Result<Scores> {
        let (query, positive, trace) =
            (&texts.columns[0], &texts.columns[1], texts.columns[0].trace());
        let gather = |column: &Tensor| texts.peers.gather(column);
        let docs = texts.columns[1..].iter().map(gather).collect::<Result<Vec<_>>>()?;
        let count = docs.len();
        let docs = trace.concatenate(&docs.iter().collect::<Vec<_>>(), 0)?;
        let empty = texts.empty_slots()?;
        let [own, all] = [query.dims()[0], empty.dims()[0]];
        let empty_docs = repeated(&empty.unsqueeze(0)?, count)?;
        let is_own = texts.peers.own(query, own, all)?;
        let excluded = |count| repeated(&never(&is_own)?, count);
        let similarities = self.similarity.matrix(query, &docs)?;
        let of_docs = similarities.mul_scalar(self.scale)?;
        // Computed from the same scores, so that the gradient of a row without negatives is exactly 0: Adam makes a
        // whole step of what rounding leaves of it.
        let of_positives = of_docs.slice(1, 0, all)?;
        let none = of_positives.stop_gradient()?.mul_scalar(0.0)?;
        let positive_score = is_own.select(&of_positives, &none)?.sum(&[1])?;
        let of_docs = match &self.hardness {
            Some(hardness) => of_docs.add(&hardness.added(&similarities, &is_own)?)?,
            None => of_docs,
        };
        let mut scores = vec![of_docs.add(&empty_docs)?];
        let Directions { query_to_query, doc_to_query, doc_to_doc } = self.directions;
        if query_to_query || doc_to_query {
            let (queries, empty) = (gather(query)?, empty.unsqueeze(0)?);
            if query_to_query {
                let others = self.score(query, &queries)?.add(&excluded(1)?)?;
                scores.push(others.add(&empty)?);
            }
            if doc_to_query {
                scores.push(self.score(positive, &queries)?.add(&empty)?);
            }
        }
        if doc_to_doc {
            let others = self.score(positive, &docs)?.add(&excluded(count)?)?;
            scores.push(others.add(&empty_docs)?);
        }
        Ok(Scores { positive: positive_score, directions: scores })
    }

    fn score(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        Ok(self.similarity.matrix(a, b)?.mul_scalar(self.scale)?)
    }
}

/// The mean over directions of the logarithms of the sums of exponentials, f32[n].
fn mean_of(scores: &[Tensor]) -> Result<Tensor> {
    let mut sum = scores[0].logsumexp(1)?;
    for scores in &scores[1..] {
        sum = sum.add(&scores.logsumexp(1)?)?;
    }
    Ok(sum.mul_scalar(1.0 / scores.len() as f64)?)
}

/// `x` [n, N] `count` times side by side.
fn repeated(x: &Tensor, count: usize) -> Result<Tensor> {
    Ok(x.trace().concatenate(&vec![x; count], 1)?)
}
