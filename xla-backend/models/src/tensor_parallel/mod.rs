//! Layers divided over the cores of the `tensor` axis (Shoeybi et al., 2019): each core holds some
//! heads of attention, some features of a feed-forward network and some rows of the vocabulary.
//!
//! Between these parts all cores hold the same values and the same cotangents, and compute the same
//! loss. Their gradients of whole parameters are therefore equal, and those of a shard are complete on
//! its core.

mod cores;
mod logits;
mod sharding;

pub use cores::TensorCores;
pub use logits::Logits;
pub use sharding::{Sharding, check};

pub(crate) use logits::VocabularyShare;
