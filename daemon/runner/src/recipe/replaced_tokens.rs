//! The objective of ELECTRA's pre-training, and the generator of its tokens.

use traind_job_file as settings;
use traind_models::tasks::replaced_tokens::ReplacedTokenDetection;
use traind_models::{ModelConfig, TokenGenerator};

pub(super) fn objective(settings: &settings::ReplacedTokenDetection) -> ReplacedTokenDetection {
    ReplacedTokenDetection {
        generator_weight: settings.generator_weight,
        discriminator_weight: settings.discriminator_weight,
    }
}

/// The generator, which has the config of its folder where there is one.
pub(crate) fn token_generator(
    settings: &settings::ReplacedTokenDetection,
    config: Option<Box<ModelConfig>>,
) -> TokenGenerator {
    TokenGenerator {
        config,
        hidden_size: settings.generator_hidden_size,
        num_hidden_layers: settings.generator_layers,
        tie_embeddings: settings.tie_embeddings,
        temperature: settings.temperature,
        is_new: false,
    }
}
