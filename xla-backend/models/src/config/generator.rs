//! The generator beside a model that is trained to detect the tokens which it replaces (Clark et al., 2020).

use super::{FILE_NAME, ModelConfig};
use crate::error::Result;

/// The folder of the generator in that of the model, and the module in which its parameters stand.
pub(crate) const GENERATOR: &str = "generator";
/// The class of a generator in transformers.
const ARCHITECTURE: &str = "ElectraForMaskedLM";

/// The generator of replaced tokens, and how it shares them.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenGenerator {
    /// Its own config, in the folder with its weights; `None` for a generator that has the sizes below.
    pub config: Option<Box<ModelConfig>>,
    /// The share of the model's hidden size that it has.
    pub hidden_size: f64,
    /// The share of the model's layers that it has.
    pub num_hidden_layers: f64,
    /// Whether it has the model's embeddings. By default, it has them where theirs have the same sizes.
    pub tie_embeddings: Option<bool>,
    /// The divisor of the logits by which tokens are drawn.
    pub temperature: f64,
    /// Whether it has no folder, and so no weights, before training.
    pub is_new: bool,
}

/// The sizes of ELECTRA-base and -large.
impl Default for TokenGenerator {
    fn default() -> TokenGenerator {
        TokenGenerator {
            config: None,
            hidden_size: 0.25,
            num_hidden_layers: 1.0,
            tie_embeddings: None,
            temperature: 1.0,
            is_new: false,
        }
    }
}

impl TokenGenerator {
    /// These settings with the config of the generator beside a model with `model`.
    pub(crate) fn resolved(&self, model: &ModelConfig) -> Result<TokenGenerator> {
        let mut config = match &self.config {
            Some(config) => {
                ModelConfig { padding_token: model.padding_token, ..(**config).clone() }
            }
            None => self.in_proportion(model)?,
        };
        check_equal(&config, model, "model_type", |config| config.model_type().map(str::to_owned))?;
        check_equal(&config, model, "vocab_size", |config| config.size("vocab_size"))?;
        config.set("architectures", vec![ARCHITECTURE]);
        let is_new = self.is_new || self.config.is_none();
        Ok(TokenGenerator { config: Some(Box::new(config)), is_new, ..self.clone() })
    }

    /// The config of a generator with a share of the sizes of `model`, by the rule of ELECTRA's own code: heads have
    /// at least 64 features.
    fn in_proportion(&self, model: &ModelConfig) -> Result<ModelConfig> {
        const HEAD_SIZE: usize = 64;
        const EMBEDDING_SIZE: usize = 128;
        let share = |key: &str, share: f64| -> Result<usize> {
            Ok(((model.size(key)? as f64 * share).round() as usize).max(1))
        };
        let hidden_size = share("hidden_size", self.hidden_size)?;
        let heads_max = (hidden_size / HEAD_SIZE).max(1);
        let heads = (1..=heads_max).rev().find(|heads| hidden_size.is_multiple_of(*heads));
        let folder = model.path().parent().map(|folder| folder.join(GENERATOR));
        let mut config = model.clone();
        config.path = folder.unwrap_or_default().join(FILE_NAME);
        config.token_generator = None;
        config.set("hidden_size", hidden_size);
        config.set("num_hidden_layers", share("num_hidden_layers", self.num_hidden_layers)?);
        config.set("intermediate_size", 4 * hidden_size);
        config.set("num_attention_heads", heads.unwrap_or(1));
        config.set("embedding_size", model.size_or("embedding_size", EMBEDDING_SIZE)?);
        Ok(config)
    }
}

/// Refuses a generator whose `key` is not that of the model.
fn check_equal<T: PartialEq + std::fmt::Display>(
    generator: &ModelConfig,
    model: &ModelConfig,
    key: &str,
    value: impl Fn(&ModelConfig) -> Result<T>,
) -> Result<()> {
    let (expected, found) = (value(model)?, value(generator)?);
    if found == expected {
        return Ok(());
    }
    Err(generator
        .error(key, format!("expected {expected}, that of the discriminator, found {found}")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn config(keys: Value) -> ModelConfig {
        ModelConfig::new("m/config.json", keys.as_object().unwrap().clone())
    }

    fn model(hidden_size: usize) -> ModelConfig {
        config(json!({
            "model_type": "electra", "vocab_size": 30_522, "embedding_size": 128, "hidden_size": hidden_size,
            "num_hidden_layers": 12, "num_attention_heads": 4, "intermediate_size": 1024,
        }))
    }

    fn check(hidden_size: usize, share: f64, expect: [usize; 3]) {
        let generator = TokenGenerator { hidden_size: share, ..TokenGenerator::default() };
        let found = generator.resolved(&model(hidden_size)).unwrap().config.unwrap();
        let keys = ["hidden_size", "num_attention_heads", "intermediate_size"];
        assert_eq!(keys.map(|key| found.size(key).unwrap()), expect);
        assert_eq!(found.path(), std::path::Path::new("m/generator/config.json"));
        assert_eq!(found.architecture(), Some("ElectraForMaskedLM"));
    }

    /// Checks sizes of google/electra-small-generator and -base-generator among others.
    #[test]
    fn sizes_are_shares_of_those_of_the_discriminator() {
        check(256, 1.0, [256, 4, 1024]);
        check(256, 0.25, [64, 1, 256]);
        check(768, 1.0 / 3.0, [256, 4, 1024]);
        check(800, 0.25, [200, 2, 800]);
        check(2, 0.25, [1, 1, 4]);
    }

    #[test]
    fn a_generator_writes_tokens_of_the_same_vocabulary() {
        let other = config(json!({"model_type": "electra", "vocab_size": 100}));
        let generator =
            TokenGenerator { config: Some(Box::new(other)), ..TokenGenerator::default() };
        let error = generator.resolved(&model(256)).unwrap_err().to_string();
        assert!(error.contains("expected 30522, that of the discriminator, found 100"), "{error}");
        let other = config(json!({"model_type": "bert", "vocab_size": 30_522}));
        let generator =
            TokenGenerator { config: Some(Box::new(other)), ..TokenGenerator::default() };
        let error = generator.resolved(&model(256)).unwrap_err().to_string();
        assert!(
            error.contains("expected electra, that of the discriminator, found bert"),
            "{error}"
        );
    }
}
