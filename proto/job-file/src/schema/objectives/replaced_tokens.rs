//! `replaced-token-detection`: the objective of ELECTRA's pre-training, and the size of its generator.

use crate::section::{above, above_to, section};

section! {
    /// The objective of `task: replaced-token-detection`, and the generator of the tokens.
    pub struct ReplacedTokenDetection {
        /// Weight of the discriminator's loss, the mean over all tokens of the batch.
        discriminator_weight: f64 = 50.0, in 0.0..;
        /// Weight of the generator's loss, the mean over the masked tokens of the batch.
        generator_weight: f64 = 1.0, in 0.0..;
        /// Temperature at which the generator's tokens are drawn.
        temperature: f64 = 1.0, in above(0.0);
        /// Share of the discriminator's hidden size that a new generator has. Its feed-forward layers are
        /// four times as wide, and its heads have at least 64 features.
        generator_hidden_size: f64 = 0.25, in above_to(0.0, 4.0);
        /// Share of the discriminator's layers that a new generator has.
        generator_layers: f64 = 1.0, in above_to(0.0, 4.0);
        /// Train one set of embeddings for both models. By default, they share embeddings where those of
        /// both have the same sizes.
        tie_embeddings: Option<bool> = None;
    }
}
