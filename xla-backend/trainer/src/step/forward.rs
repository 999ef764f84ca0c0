//! The forward pass that training and evaluation share: the model, its compute type and its loss.

use std::sync::Arc;

use traind_loader::{BatchAxis, BatchSizes, ModelInputs};
use traind_models::tasks::embedding::{self, Peers};
use traind_models::tasks::preference::{Compared, PreferenceObjective, Preferences};
use traind_models::tasks::{TaskLoss, num_items_in_batch};
use traind_models::{
    Batch, Chunks, Forward, HiddenStates, InputDim, InputSpec, Lengths, Logits, Model, Output,
    OutputKind, ParameterTensors,
};
use traind_xla::mesh::Mesh;
use traind_xla::ops::random::Random;
use traind_xla::runtime::{Recording, StepInput};
use traind_xla::{DType, Shape, Tensor};

use super::{BatchLayout, EmbeddingObjective, ForwardConfig, SetObjective, StepConfig};
use crate::error::Result;
use crate::state::{CacheConfig, Reference, TrainState};

/// The magnitude of the noise on embeddings, before it is divided by the root of their width.
pub(crate) const EMBEDDING_NOISE: &str = "embedding_noise";

/// The states of the chunk before, the first of which is absent in the first chunk, and the second in
/// models that read one sequence.
const STATES: [&str; 2] = ["states", "source_states"];

/// The forward pass of a model, with its loss.
#[derive(Clone)]
pub struct ForwardPass {
    /// The trained model.
    pub model: Arc<Model>,
    /// The parts of the model that are recorded by themselves.
    pub chunks: Chunks,
    /// The cores that divide the positions of rows between layers.
    pub position_shares: usize,
    /// The inputs of batches.
    pub layout: BatchLayout,
    /// The type of products; parameters, sums, norms and the loss are f32.
    pub compute_dtype: DType,
    /// Replaces the model's own loss.
    pub loss: Option<TaskLoss>,
    /// Replaces it where rows are preferences.
    pub preference: Option<Arc<dyn PreferenceObjective>>,
    /// Replaces it where texts are embedded or scored.
    pub embedding: Option<EmbeddingObjective>,
    /// The parts that training batches pass through the model in; none where they pass whole.
    pub cache: Option<CacheConfig>,
    /// The cores with other rows of a batch, with which embeddings and preferences are compared.
    pub mesh: Mesh,
    /// The rows of the data in a training batch of one core.
    pub rows_per_core: usize,
    /// The weights of the frozen model, where there is one.
    pub reference: Option<Reference>,
    /// The model of the reference, where that is not the trained one.
    pub reference_model: Option<Arc<Model>>,
    /// Whether training has dropout, where the model's config has a rate.
    pub dropout: bool,
    /// Whether layers are computed again for the backward pass.
    pub gradient_checkpointing: bool,
    /// Whether training rows get noise on their embeddings (`neftune_noise_alpha`).
    pub embedding_noise: bool,
}

impl ForwardPass {
    /// The pass of a model. `inputs` are those that the tokenizer provides.
    pub fn new(
        config: &StepConfig,
        model: &Arc<Model>,
        chunks: Chunks,
        inputs: ModelInputs,
    ) -> Result<ForwardPass> {
        let ForwardConfig {
            compute_dtype,
            loss,
            preference,
            embedding,
            dropout,
            gradient_checkpointing,
            embedding_noise,
        } = config.forward.clone();
        let divides_positions = config.state.sequence_parallel;
        let inputs = BatchLayout::of(model.as_ref(), inputs, config.sequences_per_row());
        let layout = match (&embedding, &preference) {
            (Some(objective), _) => {
                let loss = objective.loss.as_deref();
                let label = loss.and_then(embedding::label_input);
                inputs.with_targets(label.into_iter().chain(loss.and_then(embedding::guide_input)))
            }
            (None, Some(objective)) => inputs.with(objective.input()),
            (None, None) => inputs,
        };
        Ok(ForwardPass {
            model: Arc::clone(model),
            chunks,
            position_shares: if divides_positions { config.mesh.tensor } else { 1 },
            layout,
            compute_dtype,
            loss: TaskLoss::new(&loss)?,
            preference,
            embedding,
            cache: None,
            mesh: config.mesh.mesh()?.of_stage(),
            rows_per_core: config.state.rows_per_core,
            reference: config.state.reference,
            reference_model: None,
            dropout,
            gradient_checkpointing,
            embedding_noise,
        })
    }

    /// The pass of training batches, whose labels are those of the sets that have objectives of their own. With
    /// stages, batches whose rows are compared pass in parts.
    pub(super) fn of_training(mut self) -> ForwardPass {
        let Some(objective) = &self.embedding else { return self };
        let [label, guide] = [objective.trained_label(), objective.trained_guide()];
        let part_rows = match self.chunks.count() {
            1 => objective.part_rows,
            // Micro-batches, whatever their rows.
            _ => objective.compares_trained().then_some(self.rows_per_core),
        };
        let width = match self.model.output() {
            OutputKind::PerRow { classes } => Some(classes),
            _ => None,
        };
        self.cache = part_rows.zip(width).map(|(rows, width)| CacheConfig {
            rows,
            texts: objective.texts_max(),
            width,
            label: label.as_ref().map(|spec| (spec.dtype, width_of(spec))),
            guide: guide.as_ref().map(width_of),
        });
        self.layout = self.layout.with_targets(label.into_iter().chain(guide));
        self
    }

    /// The pass with the objective of the set that a batch of `sizes` is of.
    pub(super) fn of_set(&self, sizes: &BatchSizes) -> ForwardPass {
        let mut pass = self.clone();
        let place = sizes.get(BatchAxis::Objective).checked_sub(1);
        if let (Some(objective), Some(place)) = (&mut pass.embedding, place)
            && let Some(SetObjective { loss, texts }) = objective.of_sets.get(place)
        {
            (objective.loss, objective.texts) = (Some(Arc::clone(loss)), *texts);
        }
        ForwardPass { layout: pass.layout.of_set(sizes), ..pass }
    }

    /// Whether the rows of a batch that is evaluated are compared with each other.
    pub(super) fn compares_evaluated(&self) -> bool {
        self.embedding.as_ref().is_some_and(EmbeddingObjective::compares_evaluated)
    }

    /// The inputs of `chunk` for a batch of `sizes`, in the order in which they are uploaded: those of
    /// the batch, `shared`, and the states of the chunk before.
    pub fn inputs(
        &self,
        sizes: &BatchSizes,
        shared: impl IntoIterator<Item = StepInput>,
        chunk: usize,
    ) -> Result<Vec<StepInput>> {
        let mut inputs = self.layout.step_inputs(sizes);
        inputs.extend(shared);
        if !self.chunks.is_first(chunk) {
            inputs.extend(self.state_inputs(sizes, STATES)?);
        }
        Ok(inputs)
    }

    /// Inputs with the shapes of the states between chunks.
    pub(crate) fn state_inputs(
        &self,
        sizes: &BatchSizes,
        names: [&str; 2],
    ) -> Result<Vec<StepInput>> {
        let shapes = self.state_shapes(sizes)?;
        Ok(names.into_iter().zip(shapes).map(|(name, shape)| StepInput::new(name, shape)).collect())
    }

    /// The shapes of the states between chunks on a core.
    pub fn state_shapes(&self, sizes: &BatchSizes) -> Result<Vec<Shape>> {
        let lengths = Lengths {
            positions: sizes.get(BatchAxis::Positions),
            target_positions: sizes.get(BatchAxis::TargetPositions),
            predicted_positions: sizes.get(BatchAxis::PredictedPositions),
        };
        // The rows of the reference are beside them.
        let models = if self.reference.is_some() { 2 } else { 1 };
        let rows = models * sizes.rows() * self.layout.sequences_of(sizes);
        let (model, shares) = (self.model.as_ref(), self.position_shares);
        Ok(self.chunks.state_shapes(model, rows, lengths, shares)?)
    }

    /// The bytes of the states between chunks.
    pub(super) fn state_bytes(&self, sizes: &BatchSizes) -> Result<u64> {
        let states = self.state_inputs(sizes, STATES)?;
        Ok(states.iter().map(|input| input.shape.size_bytes() as u64).sum())
    }

    /// The random bits of `chunk`, which are those that it has in the whole model.
    pub(crate) fn random_of(&self, chunk: usize, random: Random) -> Result<Random> {
        let (model, has_noise) = (self.model.as_ref(), self.embedding_noise);
        let draws = self.chunks.draws_before(model, chunk, has_noise)?;
        Ok(random.after_sites(draws))
    }

    /// The states that `chunk` reads; none in the first.
    pub(crate) fn states_before(&self, at: &Recording<'_>, chunk: usize) -> Vec<Tensor> {
        match self.chunks.is_first(chunk) {
            true => Vec::new(),
            false => STATES.iter().filter_map(|name| at.input(name).cloned()).collect(),
        }
    }

    /// Records `chunk` over this core's rows, as in training if `random` is given.
    pub(crate) fn record(
        &self,
        at: &Recording<'_>,
        parameters: PassParameters,
        random: Option<&Random>,
        chunk: usize,
    ) -> Result<Passed> {
        let PassParameters { trained, reference, shard } = parameters;
        let (parameters, trains) = (trained.computed_in(self.compute_dtype), random.is_some());
        let embedding_noise = random.and_then(|_| at.input(EMBEDDING_NOISE));
        let forward = Forward {
            trace: at.trace(),
            parameters: &parameters,
            random: random.filter(|_| self.dropout),
            gradient_checkpointing: self.gradient_checkpointing && trains,
            adapters: Some(self.model.adapters()),
            cache: None,
            embedding_noise,
        };
        let reference = reference.map(|parameters| parameters.computed_in(self.compute_dtype));
        let frozen = reference.as_ref().map(|parameters| self.reference_forward(at, parameters));
        let batch = self.layout.bind(at);
        let model = self.model.as_ref();
        let before = HiddenStates::of_tensors(self.states_before(at, chunk).into_iter());
        let [before, frozen_before] = match (&frozen, before) {
            (Some(_), Some(before)) => halves(&before)?.map(Some),
            (_, before) => [before, None],
        };
        let states = self.chunks.states(model, chunk, &forward, before, &batch)?;
        let frozen_states = |frozen| {
            self.chunks.states(self.reference_model(), chunk, frozen, frozen_before, &batch)
        };
        if !self.chunks.is_last(chunk) {
            return Ok(Passed::States(match &frozen {
                Some(frozen) => joined(&states, &frozen_states(frozen)?)?,
                None => states,
            }));
        }
        let output = match &self.embedding {
            // The head's own loss, if it has one, would be another.
            Some(_) => model.head(&forward, &states, &batch.without("labels"))?,
            None => model.head(&forward, &states, &batch)?,
        };
        let reference = match &frozen {
            Some(frozen) => {
                let states = frozen_states(frozen)?;
                Some(self.reference_model().head(frozen, &states, &batch)?.logits)
            }
            None => None,
        };
        let last = match &self.preference {
            Some(objective) => {
                self.compared(objective.as_ref(), output, reference.as_ref(), &batch)?
            }
            None => self.with_job_loss(output, trains, &batch, shard)?,
        };
        Ok(Passed::Output(last.into()))
    }

    /// This core's place among those that share a batch, an s32 scalar; none where no loss depends on it.
    pub(crate) fn shard(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
    ) -> Result<Option<Tensor>> {
        if self.embedding.is_none() || self.mesh.data_shards() == 1 {
            return Ok(None);
        }
        // A quotient without remainder, which float32 has exactly.
        let first_row = at.read(state.row_offset)?.convert(DType::F32)?;
        let shard = first_row.div_scalar(self.rows_per_core as f64)?;
        Ok(Some(shard.convert(DType::S32)?))
    }

    /// The cores with other rows of a batch, of which this one has the place `shard`.
    pub(super) fn peers(&self, shard: Option<Tensor>) -> Peers {
        shard.map_or_else(Peers::none, |shard| Peers::of_mesh(&self.mesh, shard))
    }

    /// The pass of the frozen reference over the same rows.
    fn reference_forward<'a>(
        &'a self,
        at: &'a Recording<'_>,
        parameters: &'a ParameterTensors,
    ) -> Forward<'a> {
        let has_adapters = self.reference == Some(Reference::WithAdapters);
        Forward {
            trace: at.trace(),
            parameters,
            random: None,
            gradient_checkpointing: false,
            adapters: has_adapters.then(|| self.model.adapters()),
            cache: None,
            embedding_noise: None,
        }
    }

    fn reference_model(&self) -> &Model {
        self.reference_model.as_ref().unwrap_or(&self.model).as_ref()
    }

    /// The result of the last chunk with the loss that the job asks for.
    fn with_job_loss(
        &self,
        mut output: Output,
        trains: bool,
        batch: &Batch,
        shard: Option<Tensor>,
    ) -> Result<LastOutput> {
        let model = self.model.as_ref();
        if let Some(EmbeddingObjective { loss: Some(loss), texts, .. }) = &self.embedding
            && !(trains && self.cache.is_some())
        {
            let peers = self.peers(shard);
            let embeddings = &output.logits.values;
            output.loss = embedding::loss(loss.as_ref(), embeddings, *texts, batch, &peers)?;
        }
        if let Some(loss) = &self.loss
            && let Some(loss) = loss.loss(model.output(), model.config(), &output.logits, batch)?
        {
            output.loss = Some(loss);
        }
        if trains
            && let Some(loss) = &mut output.loss
            && let Some(items) = num_items_in_batch(model, batch)?
        {
            loss.weight_sum = items;
        }
        Ok(LastOutput { output, preferences: None })
    }

    /// The result of the last chunk with the loss of preferences.
    fn compared(
        &self,
        objective: &dyn PreferenceObjective,
        output: Output,
        reference: Option<&Logits>,
        batch: &Batch,
    ) -> Result<LastOutput> {
        let compared = Compared { policy: &output.logits, reference, batch, mesh: &self.mesh };
        let preferences = objective.compare(&compared)?;
        let loss = Some(preferences.loss.clone());
        Ok(LastOutput { output: Output { loss, ..output }, preferences: Some(preferences) })
    }
}

/// The numbers of a row's label, or of a guide's vector.
fn width_of(spec: &InputSpec) -> usize {
    match spec.dims.last() {
        Some(InputDim::Size(width)) => *width,
        _ => 1,
    }
}

/// The states of the trained model and behind them those of the reference, as chunks hand them on.
/// Nothing flows back into the reference.
fn joined(trained: &HiddenStates, reference: &HiddenStates) -> Result<HiddenStates> {
    let reference = reference.last.stop_gradient()?;
    let both = [&trained.last, &reference];
    Ok(HiddenStates::of(trained.last.trace().concatenate(&both, 0)?))
}

/// The states that [`joined`] put together.
fn halves(states: &HiddenStates) -> Result<[HiddenStates; 2]> {
    let both = &states.last;
    let half = both.dims()[0] / 2;
    let trained = both.slice(0, 0, half)?;
    let reference = both.slice(0, half, 2 * half)?;
    Ok([HiddenStates::of(trained), HiddenStates::of(reference)])
}

/// The parameters of a pass, as layers read them.
pub(crate) struct PassParameters {
    pub trained: ParameterTensors,
    /// The parameters of the frozen reference, where there is one.
    pub reference: Option<ParameterTensors>,
    /// See [`ForwardPass::shard`].
    pub shard: Option<Tensor>,
}

/// The result of a chunk.
pub(crate) enum Passed {
    States(HiddenStates),
    /// The output of the last chunk.
    Output(Box<LastOutput>),
}

/// The result of the whole model.
pub(crate) struct LastOutput {
    pub output: Output,
    /// Present where rows are preferences.
    pub preferences: Option<Preferences>,
}

impl Passed {
    /// Records that states remain on the core, for the chunk behind.
    pub(crate) fn send(at: &mut Recording<'_>, states: &HiddenStates) {
        states.tensors().for_each(|states| at.send(states));
    }
}
