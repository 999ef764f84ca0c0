//! Objectives of embedded texts, as sentence-transformers computes them. A new loss is a file here, a line below and
//! one in `recipe/embedding.rs` of the runner.
//!
//! A row of the data has K texts, which are K rows of the model's batch, one behind the other. N rows of the data, on
//! all cores; n of them on this one; D numbers of an embedding.

mod batch_hard_triplet;
mod contrastive;
mod cosent;
mod cosine_similarity;
mod distances;
mod gist;
mod hardness;
mod margin_mse;
mod matryoshka;
mod mse;
mod multiple_negatives_ranking;
mod online_contrastive;
mod peers;
mod texts;
mod triplet;

use std::fmt::Debug;
use std::ops::RangeInclusive;

use traind_xla::{DType, Tensor};

pub use batch_hard_triplet::BatchHardTriplet;
pub use contrastive::Contrastive;
pub use cosent::Cosent;
pub use cosine_similarity::CosineSimilarity;
pub(crate) use distances::normalized;
pub use distances::{Distance, Similarity};
pub use gist::{Gist, GuideVectors};
pub use hardness::{Hardness, HardnessMode};
pub use margin_mse::MarginMse;
pub use matryoshka::Matryoshka;
pub use mse::Mse;
pub use multiple_negatives_ranking::{Directions, MultipleNegativesRanking};
pub use online_contrastive::OnlineContrastive;
pub use peers::Peers;
pub use texts::EmbeddedTexts;
pub(in crate::tasks) use texts::never;
pub use triplet::Triplet;

use crate::error::Result;
use crate::model::{Batch, InputDim, InputSpec, LossSum};
use crate::tasks::sample_weights::sample_weights_input;

/// The vectors that a guide has of the texts, an input of batches.
pub const GUIDE_VECTORS: &str = "guide_vectors";

/// The label of a row of the data that a loss reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowLabels {
    /// No label.
    None,
    /// A class, s32.
    Class,
    /// This many numbers, f32.
    Numbers(usize),
}

/// A loss of the embeddings of a batch.
pub trait EmbeddingLoss: Debug + Send + Sync {
    /// The numbers of texts that a row may have.
    fn texts(&self) -> RangeInclusive<usize>;

    /// Returns the labels that rows must have.
    fn labels(&self) -> RowLabels;

    /// The numbers of a guide's vector, which batches have beside each text; none where the loss reads none.
    fn guide_width(&self) -> Option<usize> {
        None
    }

    /// Whether the loss of a row depends on other rows, so that it cannot be computed of parts of a batch.
    fn compares_rows(&self) -> bool;

    /// The loss of this core's rows, such that those of all cores add up to that of the batch times its rows.
    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum>;
}

/// The inputs of a batch besides tokens and labels.
pub(crate) fn inputs() -> Vec<InputSpec> {
    vec![sample_weights_input()]
}

/// The label's input of a batch; none where the loss reads none.
pub fn label_input(loss: &dyn EmbeddingLoss) -> Option<InputSpec> {
    let (dtype, width) = match loss.labels() {
        RowLabels::None => return None,
        RowLabels::Class => (DType::S32, 1),
        RowLabels::Numbers(width) => (DType::F32, width),
    };
    let dims = [InputDim::Rows, InputDim::Size(width)];
    Some(InputSpec::target("labels", dtype, if width == 1 { &dims[..1] } else { &dims }))
}

/// The input of a batch that has the guide's vector of each text; none where the loss reads none.
pub fn guide_input(loss: &dyn EmbeddingLoss) -> Option<InputSpec> {
    let dims = [InputDim::Rows, InputDim::Size(loss.guide_width()?)];
    Some(InputSpec::target(GUIDE_VECTORS, DType::F32, &dims))
}

/// The loss of `embeddings` f32[n K, D], of rows with `count` texts each; none for rows that lack the label or the
/// guide's vectors.
pub fn loss(
    loss: &dyn EmbeddingLoss,
    embeddings: &Tensor,
    count: usize,
    batch: &Batch,
    peers: &Peers,
) -> Result<Option<LossSum>> {
    let texts = EmbeddedTexts::of(embeddings, count, batch, peers)?;
    match (loss.labels(), &texts.labels) {
        (RowLabels::Class | RowLabels::Numbers(_), None) => Ok(None),
        _ if loss.guide_width().is_some() && texts.guide.is_none() => Ok(None),
        _ => loss.loss(&texts).map(Some),
    }
}
