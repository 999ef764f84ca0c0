//! In-batch negatives without those that a guide takes for positives (Solatorio, 2024), as `GISTEmbedLoss` has it.
//!
//! n rows on this core, N on all cores, G numbers of a vector of the guide.

use std::ops::RangeInclusive;

use traind_xla::Tensor;

use super::texts::never;
use super::{EmbeddedTexts, EmbeddingLoss, RowLabels, Similarity};
use crate::error::Result;
use crate::model::LossSum;

/// Anchors, positives and any number of negatives, with the guide's vectors of all of them. A text is no negative of an
/// anchor where the guide has it nearer to its own peer than the anchor to the positive.
#[derive(Clone, Debug)]
pub struct Gist {
    /// The number that cosines are divided by.
    pub temperature: f64,
    /// The distance below the guide's cosine of the positive from which on texts are left out.
    pub margin: f64,
    /// Whether the margin is a share of that cosine.
    pub is_relative: bool,
    /// Whether anchors are negatives of each other.
    pub contrasts_anchors: bool,
    /// Whether positives are negatives of each other.
    pub contrasts_positives: bool,
    /// The texts of a row.
    pub texts: usize,
    /// The place of the guide's vectors.
    pub guide: GuideVectors,
    /// The numbers of a vector of the guide.
    pub guide_width: usize,
}

/// The place in a batch of the vectors that a guide has of its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuideVectors {
    /// The label of a row has those of all of its texts, one behind the other.
    OfLabels,
    /// Each text has its own beside it.
    BesideTexts,
}

/// The embeddings of some texts with the guide's vectors of them.
struct Guided {
    embeddings: Tensor,
    guide: Tensor,
}

impl EmbeddingLoss for Gist {
    fn texts(&self) -> RangeInclusive<usize> {
        let fewest = self.texts.max(2);
        fewest..=fewest
    }

    fn labels(&self) -> RowLabels {
        match self.guide {
            GuideVectors::OfLabels => RowLabels::Numbers(self.texts * self.guide_width),
            GuideVectors::BesideTexts => RowLabels::None,
        }
    }

    fn guide_width(&self) -> Option<usize> {
        (self.guide == GuideVectors::BesideTexts).then_some(self.guide_width)
    }

    fn compares_rows(&self) -> bool {
        true
    }

    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum> {
        let own = self.guided(texts)?;
        let all = own.iter().map(|column| column.gathered(texts)).collect::<Result<Vec<_>>>()?;
        let (anchor, positive) = (&own[0], &own[1]);
        let limit = self.limit(anchor, positive)?;
        let rows = [anchor.embeddings.dims()[0], all[0].embeddings.dims()[0]];
        let is_own = texts.peers.own(&anchor.embeddings, rows[0], rows[1])?;
        let of_positives = anchor.excluded(&all[1], &limit)?;
        let none = of_positives.mul_scalar(0.0)?;
        let counted = is_own.select(&none, &of_positives)?;
        let mut scores = vec![anchor.cosines(&all[1])?.add(&counted)?];
        let mut compare = |one: &Guided, others: &Guided| -> Result<()> {
            scores.push(one.cosines(others)?.add(&one.excluded(others, &limit)?)?);
            Ok(())
        };
        if self.contrasts_anchors {
            compare(anchor, &all[0])?;
        }
        if self.contrasts_positives {
            compare(positive, &all[1])?;
        }
        all[2..].iter().try_for_each(|negatives| compare(anchor, negatives))?;
        let scores = scores.iter().map(|scores| Ok(scores.mul_scalar(1.0 / self.temperature)?));
        let scores = scores.collect::<Result<Vec<_>>>()?;
        // Computed from the same scores, so that the gradient of a row without negatives is exactly 0: Adam makes a
        // whole step of what rounding leaves of it.
        let of_positive = is_own.select(&scores[0], &none)?.sum(&[1])?;
        let empty = texts.empty_slots()?.unsqueeze(0)?;
        let counted = scores.iter().map(|scores| Ok(scores.add(&empty)?));
        let counted = counted.collect::<Result<Vec<_>>>()?;
        let all_scores = empty.trace().concatenate(&counted.iter().collect::<Vec<_>>(), 1)?;
        texts.sum(&all_scores.logsumexp(1)?.sub(&of_positive)?)
    }
}

impl Gist {
    /// Each column of this core's texts.
    fn guided(&self, texts: &EmbeddedTexts<'_>) -> Result<Vec<Guided>> {
        let guide = match &texts.guide {
            Some(columns) if self.guide == GuideVectors::BesideTexts => columns.clone(),
            _ => self.vectors_of_labels(texts)?,
        };
        let columns = texts.columns.iter().zip(guide);
        Ok(columns.map(|(it, guide)| Guided { embeddings: it.clone(), guide }).collect())
    }

    fn vectors_of_labels(&self, texts: &EmbeddedTexts<'_>) -> Result<Vec<Tensor>> {
        let (rows, width) = (texts.columns[0].dims()[0], self.guide_width);
        let vectors = texts.numbers()?.reshape(&[rows, self.texts, width])?;
        let column = |place| Ok(vectors.slice(1, place, place + 1)?.squeeze(1)?);
        (0..self.texts).map(column).collect()
    }

    /// The guide's cosine above which a text is no negative of each row, f32[n, 1].
    fn limit(&self, anchor: &Guided, positive: &Guided) -> Result<Tensor> {
        let cosine = Similarity::CosSim.of_pairs(&anchor.guide, &positive.guide)?;
        let limit = match self.is_relative {
            true => cosine.sub(&cosine.abs()?.mul_scalar(self.margin)?)?,
            false => cosine.sub_scalar(self.margin)?,
        };
        Ok(limit.unsqueeze(1)?)
    }
}

impl Guided {
    /// The texts of all cores.
    fn gathered(&self, texts: &EmbeddedTexts<'_>) -> Result<Guided> {
        let gather = |x: &Tensor| texts.peers.gather(x);
        Ok(Guided { embeddings: gather(&self.embeddings)?, guide: gather(&self.guide)? })
    }

    /// The cosines of each of these texts and each of the others, f32[n, N].
    fn cosines(&self, others: &Guided) -> Result<Tensor> {
        Similarity::CosSim.matrix(&self.embeddings, &others.embeddings)
    }

    /// A score that never counts where the guide's cosine is above `limit` f32[n, 1], else 0: f32[n, N].
    fn excluded(&self, others: &Guided, limit: &Tensor) -> Result<Tensor> {
        let cosines = Similarity::CosSim.matrix(&self.guide, &others.guide)?;
        never(&cosines.sub(limit)?.gt_scalar(0.0)?)
    }
}
