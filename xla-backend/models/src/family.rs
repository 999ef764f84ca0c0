//! The interface of a family of models to the registry.

use crate::config::ModelConfig;
use crate::error::Result;
use crate::model::Model;
use crate::tasks::Task;

/// Models that share a body, and the tasks that there is a head for.
pub trait Family: Sync {
    /// `model_type` of `config.json`.
    fn model_type(&self) -> &'static str;

    /// The config keys that it reads.
    fn keys(&self) -> &'static [&'static str];

    /// The length of the longest row that a model with `config` can read.
    fn max_positions(&self, config: &ModelConfig) -> Result<usize>;

    /// The model for a task; `None` where the family has none.
    fn model(&self, task: Task) -> Option<FamilyModel<'_>>;
}

/// A model that can be built.
pub struct FamilyModel<'a> {
    /// The class in transformers, as `architectures` of `config.json` has it.
    pub architecture: String,
    pub(crate) build: Box<dyn Fn(ModelConfig) -> Result<Model> + 'a>,
}

impl<'a> FamilyModel<'a> {
    pub(crate) fn new(
        architecture: impl Into<String>,
        build: impl Fn(ModelConfig) -> Result<Model> + 'a,
    ) -> FamilyModel<'a> {
        FamilyModel { architecture: architecture.into(), build: Box::new(build) }
    }
}

/// The tasks that a family has a model for.
pub fn tasks(family: &dyn Family) -> impl Iterator<Item = Task> {
    Task::ALL.into_iter().filter(|task| family.model(*task).is_some())
}
