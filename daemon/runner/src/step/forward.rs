//! The forward pass that training and evaluation share: the model, its compute type and the job's
//! loss.

use std::sync::Arc;

use traind_job_file::{JobFile, Train};
use traind_loader::{BatchAxis, BatchSizes, ModelInputs};
use traind_models::tasks::{LabelSmoother, num_items_in_batch};
use traind_models::{Chunks, Forward, HiddenStates, Lengths, Model, Output, ParameterTensors};
use traind_xla::ops::random::Random;
use traind_xla::runtime::{Recording, StepInput};
use traind_xla::{DType, Tensor};

use super::BatchLayout;
use crate::error::RunResult;

/// The magnitude of the noise on embeddings, before it is divided by the root of their width.
pub(crate) const EMBEDDING_NOISE: &str = "embedding_noise";

/// The states of the chunk before, the first of which is absent in the first chunk, and the second in
/// models that read one sequence.
const STATES: [&str; 2] = ["states", "source_states"];

#[derive(Clone)]
pub(crate) struct ForwardPass {
    pub model: Arc<dyn Model>,
    /// The parts of the model that are recorded by themselves.
    pub chunks: Chunks,
    /// The cores that divide the positions of rows between layers.
    pub position_shares: usize,
    pub layout: BatchLayout,
    /// The type of products; parameters, sums, norms and the loss are f32.
    pub compute_dtype: DType,
    /// Replaces the model's own loss (`label_smoothing_factor`).
    pub smoother: Option<LabelSmoother>,
    pub gradient_checkpointing: bool,
    /// Whether training rows get noise on their embeddings (`neftune_noise_alpha`).
    pub embedding_noise: bool,
}

impl ForwardPass {
    /// The pass of a job's model. `inputs` are those that the tokenizer provides.
    pub(crate) fn of_job(
        job: &JobFile,
        model: &Arc<dyn Model>,
        chunks: Chunks,
        inputs: ModelInputs,
    ) -> RunResult<ForwardPass> {
        let train = &job.train;
        let parallel = &job.parallel;
        let position_shares = if parallel.sequence_parallel { parallel.tensor as usize } else { 1 };
        let smooths = train.label_smoothing_factor > 0.0;
        let smoother = smooths.then(|| LabelSmoother::new(train.label_smoothing_factor));
        Ok(ForwardPass {
            model: Arc::clone(model),
            chunks,
            position_shares,
            layout: BatchLayout::of(model.as_ref(), inputs),
            compute_dtype: compute_dtype(train),
            smoother: smoother.transpose()?,
            gradient_checkpointing: train.gradient_checkpointing,
            embedding_noise: train.neftune_noise_alpha.is_some_and(|alpha| alpha > 0.0),
        })
    }

    /// The inputs of `chunk` for a batch of `sizes`, in the order in which they are uploaded: those of
    /// the batch, `shared`, and the states of the chunk before.
    pub(crate) fn inputs(
        &self,
        sizes: &BatchSizes,
        shared: impl IntoIterator<Item = StepInput>,
        chunk: usize,
    ) -> RunResult<Vec<StepInput>> {
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
    ) -> RunResult<Vec<StepInput>> {
        let lengths = Lengths {
            positions: sizes.get(BatchAxis::Positions).div_ceil(self.position_shares),
            target_positions: sizes.get(BatchAxis::TargetPositions).div_ceil(self.position_shares),
        };
        let shapes = self.chunks.state_shapes(self.model.as_ref(), sizes.rows(), lengths)?;
        Ok(names.into_iter().zip(shapes).map(|(name, shape)| StepInput::new(name, shape)).collect())
    }

    /// The bytes of the states between chunks.
    pub(super) fn state_bytes(&self, sizes: &BatchSizes) -> RunResult<u64> {
        let states = self.state_inputs(sizes, STATES)?;
        Ok(states.iter().map(|input| input.shape.size_bytes() as u64).sum())
    }

    /// The random bits of `chunk`, which are those that it has in the whole model.
    pub(crate) fn random_of(&self, chunk: usize, random: Random) -> RunResult<Random> {
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

    /// Records `chunk` over this core's rows, with dropout if `random` is given.
    pub(crate) fn record(
        &self,
        at: &Recording<'_>,
        parameters: ParameterTensors,
        random: Option<&Random>,
        chunk: usize,
    ) -> RunResult<Passed> {
        let parameters = parameters.computed_in(self.compute_dtype);
        let embedding_noise = random.and_then(|_| at.input(EMBEDDING_NOISE));
        let forward = Forward {
            trace: at.trace(),
            parameters: &parameters,
            random,
            gradient_checkpointing: self.gradient_checkpointing && random.is_some(),
            adapters: Some(self.model.adapters()),
            cache: None,
            embedding_noise,
        };
        let batch = self.layout.bind(at);
        let model = self.model.as_ref();
        let before = HiddenStates::of_tensors(self.states_before(at, chunk).into_iter());
        let states = self.chunks.states(model, chunk, &forward, before, &batch)?;
        if !self.chunks.is_last(chunk) {
            return Ok(Passed::States(states));
        }
        let mut output = model.head(&forward, &states, &batch)?;
        if let Some(smoother) = &self.smoother
            && let Some(loss) = smoother.loss(self.model.output(), &output.logits, &batch)?
        {
            output.loss = Some(loss);
        }
        if random.is_some()
            && let Some(loss) = &mut output.loss
            && let Some(items) = num_items_in_batch(model, &batch)?
        {
            loss.weight_sum = items;
        }
        Ok(Passed::Output(output.into()))
    }
}

/// The result of a chunk.
pub(crate) enum Passed {
    States(HiddenStates),
    /// That of the last.
    Output(Box<Output>),
}

impl Passed {
    /// Records that states remain on the core, for the chunk behind.
    pub(crate) fn send(at: &mut Recording<'_>, states: &HiddenStates) {
        states.tensors().for_each(|states| at.send(states));
    }
}

/// The type of a job's products.
pub(crate) fn compute_dtype(train: &Train) -> DType {
    match train {
        Train { bf16: true, .. } => DType::BF16,
        Train { fp16: true, .. } => DType::F16,
        _ => DType::F32,
    }
}
