//! The modules behind a model that embeds texts.

use traind_job_file::{DenseActivation, PoolingMode};
use traind_models::sentence;

use super::by_name::by_name;

by_name! {
    /// The activation of the layer behind the pooling.
    pub(crate) fn activation(DenseActivation) -> sentence::DenseActivation {
        Identity, Tanh, Relu, Gelu, Silu, Sigmoid
    }

    /// How the states of a text's tokens become its embedding.
    pub(crate) fn pooling(PoolingMode) -> sentence::PoolingMode {
        Cls, Max, Mean, MeanSqrtLenTokens, WeightedMean, LastToken
    }
}
