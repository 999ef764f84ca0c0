//! How texts become embeddings.

spelled! {
    /// How the states of a text's tokens become its embedding.
    pub enum PoolingMode {
        /// The state of the first token.
        Cls = "cls",
        /// The largest value of each number.
        Max = "max",
        /// The mean.
        Mean = "mean",
        /// The sum, divided by the square root of the number of tokens.
        MeanSqrtLenTokens = "mean_sqrt_len_tokens",
        /// The mean weighted by the positions of tokens.
        WeightedMean = "weightedmean",
        /// The state of the last token.
        LastToken = "lasttoken",
    }
}

spelled! {
    /// The activation of a linear layer behind the pooling.
    pub enum DenseActivation {
        /// None.
        Identity = "identity",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// The larger of a number and 0.
        Relu = "relu",
        /// GELU by the error function.
        Gelu = "gelu",
        /// A number times its sigmoid.
        Silu = "silu",
        /// The logistic function.
        Sigmoid = "sigmoid",
    }
}
