//! The modules behind a model that embeds texts.

use traind_job_file::{DenseActivation, PoolingMode};
use traind_models::sentence;

/// The activation of the layer behind the pooling.
pub(crate) fn activation(function: DenseActivation) -> sentence::DenseActivation {
    match function {
        DenseActivation::Identity => sentence::DenseActivation::Identity,
        DenseActivation::Tanh => sentence::DenseActivation::Tanh,
        DenseActivation::Relu => sentence::DenseActivation::Relu,
        DenseActivation::Gelu => sentence::DenseActivation::Gelu,
        DenseActivation::Silu => sentence::DenseActivation::Silu,
        DenseActivation::Sigmoid => sentence::DenseActivation::Sigmoid,
    }
}

/// How the states of a text's tokens become its embedding.
pub(crate) fn pooling(mode: PoolingMode) -> sentence::PoolingMode {
    match mode {
        PoolingMode::Cls => sentence::PoolingMode::Cls,
        PoolingMode::Max => sentence::PoolingMode::Max,
        PoolingMode::Mean => sentence::PoolingMode::Mean,
        PoolingMode::MeanSqrtLenTokens => sentence::PoolingMode::MeanSqrtLenTokens,
        PoolingMode::WeightedMean => sentence::PoolingMode::WeightedMean,
        PoolingMode::LastToken => sentence::PoolingMode::LastToken,
    }
}
