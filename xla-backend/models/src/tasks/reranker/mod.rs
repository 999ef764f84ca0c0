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

pub use binary_cross_entropy::BinaryCrossEntropy;
pub use cross_entropy::CrossEntropy;
pub use lambda::{Lambda, Weighting};
pub use list_net::ListNet;
pub use margin_mse::MarginMse;
pub use mse::Mse;

/// The label of a passage that a list lacks is below this.
const NO_PASSAGE: f64 = -1e29;
