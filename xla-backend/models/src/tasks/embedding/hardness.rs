//! Weights of negatives by their hardness (Lan et al., 2025, equation 5), as `MultipleNegativesRankingLoss` has them:
//! the score of a negative grows with its similarity to the anchor, through which no gradient flows.

use traind_xla::{DType, Tensor};

use crate::error::Result;

/// The negatives that weigh more, and how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardness {
    /// The negatives that weigh more, the more similar they are.
    pub mode: HardnessMode,
    /// The number that similarities are multiplied by.
    pub strength: f64,
}

/// The negatives that weigh more, under sentence-transformers' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardnessMode {
    /// Positives and negatives of other rows.
    InBatchNegatives,
    /// Negatives of the same row.
    HardNegatives,
    /// Both.
    AllNegatives,
}

impl Hardness {
    /// The numbers that are added to the scores of anchors and texts, f32[n, K N]: of the positives of all rows, and
    /// behind them of each column of negatives. `similarities` has this shape, and `is_own` pred[n, N] are the texts
    /// of an anchor's own row.
    pub(super) fn added(&self, similarities: &Tensor, is_own: &Tensor) -> Result<Tensor> {
        let columns = similarities.dims()[1] / is_own.dims()[1];
        let own = is_own.convert(DType::F32)?;
        let others = own.one_minus()?;
        let (of_positives, of_negatives) = match self.mode {
            HardnessMode::InBatchNegatives => (others.clone(), others),
            HardnessMode::HardNegatives => (own.mul_scalar(0.0)?, own),
            HardnessMode::AllNegatives => (others.clone(), own.add(&others)?),
        };
        let mut parts = vec![&of_positives];
        parts.resize(columns, &of_negatives);
        let counted = similarities.trace().concatenate(&parts, 1)?;
        let penalties = similarities.stop_gradient()?.mul_scalar(self.strength)?;
        Ok(penalties.mul(&counted)?)
    }
}
