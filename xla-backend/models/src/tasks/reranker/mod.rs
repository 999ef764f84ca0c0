//! Objectives of scored passages, as sentence-transformers computes them for cross encoders. A new loss is a file here,
//! a line below and one in `recipe/reranker.rs` of the runner.
//!
//! They are losses of embedded texts: each of the K passages of a row of the data is a row of the model's batch, and
//! its logits are an embedding of C numbers. n rows of the data on this core.

mod binary_cross_entropy;
mod cross_entropy;
mod lambda;
mod list_net;
mod margin_mse;
mod mse;
mod passages;

use std::fmt::Debug;
use std::ops::RangeInclusive;

use crate::error::Result;
use crate::model::LossSum;
use crate::tasks::embedding::{EmbeddedTexts, EmbeddingLoss, RowLabels};
use passages::Passages;

pub use binary_cross_entropy::BinaryCrossEntropy;
pub use cross_entropy::CrossEntropy;
pub use lambda::{Lambda, Weighting};
pub use list_net::ListNet;
pub use margin_mse::MarginMse;
pub use mse::Mse;

/// A loss of rows with as many scores as labels: those of their passages.
pub(crate) trait PassagesLoss: Debug + Send + Sync {
    /// The passages of a row.
    fn passages(&self) -> usize;

    /// Whether the loss of a row depends on other rows.
    fn compares_rows(&self) -> bool {
        false
    }

    /// The loss of this core's rows, as [`EmbeddingLoss::loss`] returns it.
    fn loss_of(&self, passages: &Passages<'_>) -> Result<LossSum>;
}

impl<L: PassagesLoss> EmbeddingLoss for L {
    fn texts(&self) -> RangeInclusive<usize> {
        self.passages()..=self.passages()
    }

    fn labels(&self) -> RowLabels {
        RowLabels::Numbers(self.passages())
    }

    fn compares_rows(&self) -> bool {
        PassagesLoss::compares_rows(self)
    }

    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum> {
        self.loss_of(&Passages::of(texts)?)
    }
}

/// The label of a passage that a list lacks is below this.
const NO_PASSAGE: f64 = -1e29;
