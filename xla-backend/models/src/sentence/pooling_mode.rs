//! How the states of a text become its embedding.

/// How the states of a text's tokens become one vector, under sentence-transformers' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolingMode {
    /// The state of the first token.
    Cls,
    /// The largest of each number.
    Max,
    /// The mean of each number.
    Mean,
    /// The sum, divided by the square root of the number of tokens.
    MeanSqrtLenTokens,
    /// The mean weighted by the positions of tokens, from 1.
    WeightedMean,
    /// The state of the last token.
    LastToken,
}

impl PoolingMode {
    /// Every mode, in the order in which their results are joined.
    pub const ALL: [PoolingMode; 6] = [
        PoolingMode::Cls,
        PoolingMode::Max,
        PoolingMode::Mean,
        PoolingMode::MeanSqrtLenTokens,
        PoolingMode::WeightedMean,
        PoolingMode::LastToken,
    ];

    /// Returns the name in sentence-transformers' config.
    pub fn name(self) -> &'static str {
        match self {
            PoolingMode::Cls => "cls",
            PoolingMode::Max => "max",
            PoolingMode::Mean => "mean",
            PoolingMode::MeanSqrtLenTokens => "mean_sqrt_len_tokens",
            PoolingMode::WeightedMean => "weightedmean",
            PoolingMode::LastToken => "lasttoken",
        }
    }

    /// The mode with a name.
    pub fn from_name(name: &str) -> Option<PoolingMode> {
        PoolingMode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The key of older versions.
    pub(super) fn key(self) -> &'static str {
        match self {
            PoolingMode::Cls => "pooling_mode_cls_token",
            PoolingMode::Max => "pooling_mode_max_tokens",
            PoolingMode::Mean => "pooling_mode_mean_tokens",
            PoolingMode::MeanSqrtLenTokens => "pooling_mode_mean_sqrt_len_tokens",
            PoolingMode::WeightedMean => "pooling_mode_weightedmean_tokens",
            PoolingMode::LastToken => "pooling_mode_lasttoken",
        }
    }
}
