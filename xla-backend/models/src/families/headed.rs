//! Models of families with a body of their own: that body, and the head of one task.

use crate::config::ModelConfig;
use crate::error::Result;
use crate::heads::EmbeddingHead;
use crate::model::{Body, Head, Model};
use crate::parameters::ParameterPath;

/// Builds the model of a config for one task.
pub(super) type Build = fn(ModelConfig) -> Result<Model>;

/// A family's config, resolved: transformers' defaults where the file is silent.
pub(super) trait BodyConfig: Clone {
    type Body: Body + 'static;

    fn resolve(config: &ModelConfig) -> Result<Self>;

    /// Declares the body below its own prefix.
    fn body(self, root: &mut ParameterPath<'_>) -> Self::Body;

    fn hidden_size(&self) -> usize;
}

/// The model with a head.
pub(super) fn with_head<C: BodyConfig, H: Head + 'static>(
    config: ModelConfig,
    head: impl FnOnce(&ModelConfig, &C, &mut ParameterPath<'_>) -> Result<H>,
) -> Result<Model> {
    Model::assemble(config, |config, root| {
        let resolved = C::resolve(config)?;
        let body = resolved.clone().body(root);
        Ok((body, head(config, &resolved, root)?))
    })
}

/// Embeddings f32[B, D]. Names of parameters lack that of the module `base`.
pub(super) fn embedding<C: BodyConfig>(config: ModelConfig, base: &'static str) -> Result<Model> {
    Model::assemble(config, |config, root| {
        let resolved = C::resolve(config)?;
        let (modules, hidden_size) = (config.sentence_modules().clone(), resolved.hidden_size());
        let body = resolved.body(&mut root.at("").as_base_model(base));
        Ok((body, EmbeddingHead { modules, hidden_size }))
    })
}
