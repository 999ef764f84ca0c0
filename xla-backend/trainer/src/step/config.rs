//! The settings of a training step.

use std::sync::Arc;

use traind_models::optimizers::{Optimizer, Optimizers};
use traind_models::tasks::LossSettings;
use traind_models::tasks::embedding::{self, EmbeddingLoss};
use traind_models::tasks::preference::PreferenceObjective;
use traind_models::{InputSpec, Model, optimizers};
use traind_xla::DType;

use crate::error::{Error, Result};
use crate::state::{CacheConfig, MeshConfig, Pipeline, PipelineConfig, StateConfig};

/// Everything besides the model that the programs of a run are recorded from. The default trains in
/// float32 with AdamW on one core, one row a step.
#[derive(Clone, Debug)]
pub struct StepConfig {
    /// The cores, and how they divide the work.
    pub mesh: MeshConfig,
    /// How stages share batches and layers.
    pub pipeline: PipelineConfig,
    /// The state that lasts from step to step.
    pub state: StateConfig,
    /// The forward pass and its loss.
    pub forward: ForwardConfig,
    /// The update.
    pub optimizer: OptimizerConfig,
    /// About how many rows a step has on all cores, by which the sums of a scaled loss are divided so that its scale is
    /// that of a mean: by the next power of two, which rounds nothing. Without `state.scales_loss` nothing depends on
    /// it, and no step needs to have as many.
    pub rows_per_step: u64,
}

/// The settings of the forward pass.
#[derive(Clone, Debug)]
pub struct ForwardConfig {
    /// The type of products; parameters, sums, norms and the loss are f32.
    pub compute_dtype: DType,
    /// The loss; the default is the model's own.
    pub loss: LossSettings,
    /// The objective where rows are preferences, or where tokens were replaced.
    pub preference: Option<Arc<dyn PreferenceObjective>>,
    /// The objective where texts are embedded, or passages scored.
    pub embedding: Option<EmbeddingObjective>,
    /// Whether training has dropout, where the model's config has a rate.
    pub dropout: bool,
    /// Whether layers are computed again for the backward pass, which saves memory.
    pub gradient_checkpointing: bool,
    /// Whether training rows get noise on their embeddings (NEFTune).
    pub embedding_noise: bool,
}

/// The loss of the embeddings of rows.
#[derive(Clone, Debug)]
pub struct EmbeddingObjective {
    /// None where rows are embedded alone.
    pub loss: Option<Arc<dyn EmbeddingLoss>>,
    /// The texts of a row of the data.
    pub texts: usize,
    /// The most rows of each part that a batch passes through the model in; none where it passes whole. With stages,
    /// the parts are its micro-batches.
    pub part_rows: Option<usize>,
    /// The objectives of sets of rows that have their own, in the order of [`BatchAxis::Objective`]. Evaluations
    /// have the one above.
    ///
    /// [`BatchAxis::Objective`]: traind_loader::BatchAxis::Objective
    pub of_sets: Vec<SetObjective>,
}

impl EmbeddingObjective {
    /// The losses of batches that are trained on.
    fn trained(&self) -> impl Iterator<Item = &dyn EmbeddingLoss> {
        let of_sets = self.of_sets.iter().map(|set| set.loss.as_ref());
        let own = self.loss.as_deref().filter(|_| self.of_sets.is_empty());
        of_sets.chain(own)
    }

    /// Whether rows of a batch that is trained on are compared with each other.
    pub(super) fn compares_trained(&self) -> bool {
        self.trained().any(EmbeddingLoss::compares_rows)
    }

    /// Whether rows of a batch that is evaluated are compared with each other.
    pub(super) fn compares_evaluated(&self) -> bool {
        self.loss.as_deref().is_some_and(EmbeddingLoss::compares_rows)
    }

    /// The label of rows that are trained on.
    pub(super) fn trained_label(&self) -> Option<InputSpec> {
        self.trained().find_map(embedding::label_input)
    }

    /// The guide's vectors of texts that are trained on.
    pub(super) fn trained_guide(&self) -> Option<InputSpec> {
        self.trained().find_map(embedding::guide_input)
    }

    /// The most texts of a row.
    pub(super) fn texts_max(&self) -> usize {
        let of_sets = self.of_sets.iter().map(|set| set.texts);
        of_sets.chain([self.texts]).max().unwrap_or(self.texts)
    }
}

/// The loss of the rows of a set.
#[derive(Clone, Debug)]
pub struct SetObjective {
    /// The loss of a batch.
    pub loss: Arc<dyn EmbeddingLoss>,
    /// The texts of a row.
    pub texts: usize,
}

/// Optimizers of [`traind_models::optimizers`], or one of the caller's.
#[derive(Clone, Debug)]
pub struct OptimizerConfig {
    /// The name of the optimizer of all parameters but those of groups with one of their own, such as `adamw_torch`.
    pub name: String,
    /// Its settings, under TrainingArguments' names.
    pub settings: optimizers::Settings,
    /// Parameters with settings of their own.
    pub groups: Vec<optimizers::GroupSettings>,
    /// An optimizer for all parameters in place of the named one. It sees name, role and shape of each, so that there
    /// are no groups beside it.
    pub own: Option<Arc<dyn Optimizer>>,
}

impl OptimizerConfig {
    /// The optimizers of a model's parameters.
    pub fn optimizers(&self) -> Result<Optimizers> {
        let OptimizerConfig { name, settings, groups, own } = self;
        match own {
            Some(_) if !groups.is_empty() => Err(Error::GroupsBesideOwn { groups: groups.len() }),
            Some(own) => Ok(Optimizers::of_one(name, Arc::clone(own))),
            None => Ok(Optimizers::new(name, settings, groups)?),
        }
    }
}

impl Default for StepConfig {
    fn default() -> StepConfig {
        StepConfig {
            mesh: MeshConfig::default(),
            pipeline: PipelineConfig::default(),
            state: StateConfig::default(),
            forward: ForwardConfig::default(),
            optimizer: OptimizerConfig::default(),
            rows_per_step: 1,
        }
    }
}

impl Default for ForwardConfig {
    fn default() -> ForwardConfig {
        ForwardConfig {
            compute_dtype: DType::F32,
            loss: LossSettings::default(),
            preference: None,
            embedding: None,
            dropout: true,
            gradient_checkpointing: false,
            embedding_noise: false,
        }
    }
}

impl Default for OptimizerConfig {
    fn default() -> OptimizerConfig {
        OptimizerConfig {
            name: "adamw_torch".to_owned(),
            settings: optimizers::Settings::default(),
            groups: Vec::new(),
            own: None,
        }
    }
}

impl StepConfig {
    /// The sequences of tokens that the model reads of a row.
    pub fn sequences_per_row(&self) -> usize {
        let texts = self.forward.embedding.as_ref().map_or(1, |objective| objective.texts);
        self.forward.preference.as_ref().map_or(texts, |objective| objective.sequences())
    }

    /// The stages that `model` is divided into.
    pub(crate) fn pipeline_of(&self, model: &Model) -> Result<Pipeline> {
        Pipeline::of_model(model, self.mesh.stages(), &self.pipeline)
    }

    /// The settings of the state, with the sums that a pipeline, a scaled loss, or batches or an update in parts need.
    pub(super) fn state_with_sums(&self, cache: Option<CacheConfig>) -> StateConfig {
        let StateConfig { accumulates, scales_loss, offloads_optimizer, .. } = self.state;
        let accumulates = accumulates
            || scales_loss
            || offloads_optimizer
            || cache.is_some()
            || self.mesh.stages() > 1;
        StateConfig { accumulates, ..self.state }
    }
}
