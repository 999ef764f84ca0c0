//! The forward pass that training and evaluation share: the model, its compute type and the job's
//! loss.

use std::sync::Arc;

use traind_job_file::{JobFile, Train};
use traind_loader::ModelInputs;
use traind_models::tasks::{LabelSmoother, num_items_in_batch};
use traind_models::{Forward, Model, Output, ParameterTensors};
use traind_xla::DType;
use traind_xla::ops::random::Random;
use traind_xla::runtime::Recording;

use super::BatchLayout;
use crate::error::RunResult;

/// The magnitude of the noise on embeddings, before it is divided by the root of their width.
pub(crate) const EMBEDDING_NOISE: &str = "embedding_noise";

#[derive(Clone)]
pub(crate) struct ForwardPass {
    pub model: Arc<dyn Model>,
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
        inputs: ModelInputs,
    ) -> RunResult<ForwardPass> {
        let train = &job.train;
        let smooths = train.label_smoothing_factor > 0.0;
        let smoother = smooths.then(|| LabelSmoother::new(train.label_smoothing_factor));
        Ok(ForwardPass {
            model: Arc::clone(model),
            layout: BatchLayout::of(model.as_ref(), inputs),
            compute_dtype: compute_dtype(train),
            smoother: smoother.transpose()?,
            gradient_checkpointing: train.gradient_checkpointing,
            embedding_noise: train.neftune_noise_alpha.is_some_and(|alpha| alpha > 0.0),
        })
    }

    /// Records the pass over this core's rows, with dropout if `random` is given.
    pub(crate) fn record(
        &self,
        at: &Recording<'_>,
        parameters: ParameterTensors,
        random: Option<&Random>,
    ) -> RunResult<Output> {
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
        let mut output = self.model.forward(&forward, &batch)?;
        if let Some(smoother) = &self.smoother
            && let Some(loss) = smoother.loss(self.model.output(), &output.logits, &batch)?
        {
            output.loss = Some(loss);
        }
        if random.is_some()
            && let Some(loss) = &mut output.loss
            && let Some(items) = num_items_in_batch(self.model.as_ref(), &batch)?
        {
            loss.weight_sum = items;
        }
        Ok(output)
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
