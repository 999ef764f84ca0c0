//! Layers divided over the cores of the `tensor` axis (Shoeybi et al., 2019): each core holds some
//! heads of attention, some features of a feed-forward network and some rows of the vocabulary.
//!
//! Between these parts all cores hold the same values and the same cotangents, and compute the same
//! loss. Their gradients of whole parameters are therefore equal, and those of a shard are complete on
//! its core.
//!
//! With sequence parallelism (Korthikanti et al., 2022) each core has some of the positions between
//! these parts. A part then begins with all positions, gathered, and its sum is scattered over them.
//! Gradients of whole parameters that are read between the parts are those of the core's positions,
//! which [`PartialGradient`](crate::parameters::PartialGradient) marks.

mod cores;
mod forward;
mod gathering;
mod logits;
mod positions;
mod sharding;

pub use cores::TensorCores;
pub use logits::Logits;
pub use sharding::{HeldRun, Sharding, check};

pub(crate) use logits::VocabularyShare;
pub(crate) use positions::{PositionShare, token_dims};
