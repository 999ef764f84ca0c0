//! Batches that compute some predictions of tokens alone: how many a core may have.

use super::Sampler;
use crate::batch::{BatchAxis, BatchSizes};

/// Standard deviations by which batches may have more masked tokens than on average: one in a billion has more, and is
/// predicted whole.
const DEVIATIONS: f64 = 6.0;
/// The variance of whole words, whose tokens are masked together, for that of tokens.
const OF_WORDS: f64 = 4.0;
/// The share of all tokens from which on all are predicted.
const SHARE_MAX: f64 = 0.6;

/// The tokens that are masked at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskedShare {
    /// The probability of each.
    pub probability: f64,
    /// Whether the tokens of a word are masked together.
    pub of_words: bool,
}

impl MaskedShare {
    /// The sizes of a batch with the masked tokens of a row, on average over a core's rows.
    pub fn with_sizes(&self, sizes: BatchSizes) -> BatchSizes {
        let (rows, positions) = (sizes.rows() as f64, sizes.get(BatchAxis::Positions) as f64);
        let (tokens, share) = (rows * positions, self.probability);
        let of_token = share * (1.0 - share);
        let variance = tokens * if self.of_words { OF_WORDS * of_token } else { of_token };
        let most = (tokens * share + DEVIATIONS * variance.sqrt()) / rows.max(1.0);
        match most <= SHARE_MAX * positions {
            true => sizes.with(BatchAxis::PredictedPositions, most.ceil().max(1.0) as u32),
            false => sizes,
        }
    }
}

/// The predictions that batches compute, where they are not those of all tokens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Predicted {
    /// Predictions of masked tokens.
    Masked(MaskedShare),
    /// Predictions that a label is compared with. There is room for all tokens: slots without one cost little.
    Labelled,
}

impl Predicted {
    pub(super) fn with_sizes(&self, sizes: BatchSizes) -> BatchSizes {
        match self {
            Predicted::Masked(share) => share.with_sizes(sizes),
            Predicted::Labelled => {
                let all = sizes.layer_positions();
                sizes.with(BatchAxis::PredictedPositions, all as u32)
            }
        }
    }
}

impl Sampler {
    /// The same batches, of which the masked tokens alone are predicted.
    pub fn predicting_masked(self, share: MaskedShare) -> Self {
        Self { predicted: Some(Predicted::Masked(share)), ..self }
    }

    /// The same batches, of whose predictions those with a label alone are computed.
    pub fn predicting_labelled(self) -> Self {
        Self { predicted: Some(Predicted::Labelled), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tokens_of_a_batch_may_have_labels() {
        let sizes = BatchSizes::of_rows(4).with(BatchAxis::Positions, 16);
        let packed = sizes.with(BatchAxis::PackedPositions, 9);
        let predicted =
            |sizes| Predicted::Labelled.with_sizes(sizes).get(BatchAxis::PredictedPositions);
        assert_eq!([predicted(sizes), predicted(packed)], [16, 9]);
    }

    #[test]
    fn sizes_leave_room_for_more_tokens_than_on_average() {
        let masked = |rows, positions, of_words| {
            let sizes = BatchSizes::of_rows(rows).with(BatchAxis::Positions, positions);
            let share = MaskedShare { probability: 0.15, of_words };
            share.with_sizes(sizes).get(BatchAxis::PredictedPositions)
        };
        // 19.2 of 128 tokens on average.
        assert_eq!([masked(32, 128, false), masked(128, 128, false)], [24, 22]);
        assert_eq!(masked(128, 128, true), 24);
        // All tokens of small batches are predicted.
        assert_eq!(masked(1, 8, false), 0);
    }
}
