//! The frozen model that a trained one is compared with: the weights that training starts from, or those of
//! another model. The first shares the parameters that are not trained.

use traind_models::{Model, ParameterSpec};

/// The weights of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The parameters that training starts from, without adapters: new ones change nothing yet.
    WithoutAdapters,
    /// The parameters that training starts from, with their adapters.
    WithAdapters,
    /// The parameters of another model, which has no adapters.
    Named,
}

impl Reference {
    /// Whether it has a copy of its own of a parameter.
    pub(super) fn copies(self, model: &Model, spec: &ParameterSpec) -> bool {
        let is_adapter = model.adapters().owns(&spec.name);
        match self {
            Reference::WithoutAdapters => spec.trainable && !is_adapter,
            Reference::WithAdapters => spec.trainable,
            Reference::Named => !is_adapter,
        }
    }
}
