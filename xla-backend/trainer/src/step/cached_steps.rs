//! Records the programs of a batch whose rows are compared with each other but pass through the model in parts: the
//! embeddings of each part, the loss of all of them with its gradients, and the backward pass of each part, for which
//! the embeddings are computed once more. The memory is that of a part, the result that of the whole batch.
//!
//! With stages, parts are micro-batches, and these are the programs of the last chunk.

use traind_loader::BatchSizes;
use traind_models::Batch;
use traind_models::tasks::embedding::{self, GUIDE_VECTORS};
use traind_xla::runtime::{RecordedStep, Recorder, Recording, StepInput};
use traind_xla::{DType, Shape, Tensor, autodiff};

use super::forward::{LastOutput, Passed};
use super::train_step::{FIRST_ROW, accumulation, add, input};
use super::{EmbeddingObjective, TrainStep};
use crate::error::{Error, Result};
use crate::state::{GradientCache, ParameterValue, TrainState};

/// The first row of a part among those of its batch on a core.
const CACHE_ROW: &str = "cache_row";

impl TrainStep {
    /// The input of programs of parts besides those of batches; none where batches pass whole.
    pub(super) fn cache_input(&self) -> Option<StepInput> {
        let input = StepInput::new(CACHE_ROW, Shape::scalar(DType::U32));
        self.forward.cache.map(|_| input)
    }

    /// Records that the embeddings of a part, which the last chunk gives, are put into the cache.
    pub(crate) fn record_embed(
        &self,
        recorder: &Recorder,
        state: &TrainState,
        sizes: &BatchSizes,
    ) -> Result<RecordedStep> {
        recorder.record(&self.forward_inputs(sizes, self.last_chunk())?, |at| {
            let parameters = state.read_parameters(at, self.last_chunk())?;
            let embeddings = self.embedded(at, state, &parameters)?.output.logits.values;
            let embeddings = embeddings.stop_gradient()?;
            let weights = input(at, "sample_weights")?;
            let first = self.first_text(at)?;
            let cache = cache(state)?;
            let mut targets = Vec::new();
            if cache.labels.is_some() {
                targets.push(labels(at, &weights)?);
            }
            if cache.guide.is_some() {
                targets.push(input(at, GUIDE_VECTORS)?);
            }
            cache.put(at, [&embeddings, &weights], &targets, &first)
        })
    }

    /// Records the loss of all cached embeddings, which are then no longer needed, and its gradients.
    pub(crate) fn record_compare(
        &self,
        recorder: &Recorder,
        state: &TrainState,
    ) -> Result<RecordedStep> {
        recorder.record(&[], |at| {
            let (cache, sums) = (cache(state)?, accumulation(state)?);
            let embeddings = at.read(cache.embeddings)?;
            // The rows of a set may have fewer texts than those of others.
            let texts = cache.rows * self.forward.layout.sequences();
            let of_set = |all: &Tensor| all.slice(0, 0, texts);
            let mut batch = Batch::new();
            batch.insert("sample_weights", of_set(&at.read(cache.weights)?)?);
            if let Some(labels) = cache.labels {
                batch.insert("labels", as_input(&of_set(&at.read(labels)?)?)?);
            }
            if let Some(guide) = cache.guide {
                batch.insert(GUIDE_VECTORS, of_set(&at.read(guide)?)?);
            }
            let peers = self.forward.peers(self.forward.shard(at, state)?);
            let Some(EmbeddingObjective { loss: Some(loss), texts, .. }) = &self.forward.embedding
            else {
                return Err(missing_cache());
            };
            let compared = of_set(&embeddings)?;
            let found = embedding::loss(loss.as_ref(), &compared, *texts, &batch, &peers)?;
            let found = found.ok_or_else(missing_cache)?;
            let gradients = autodiff::gradients(&found.loss_sum, &[&embeddings])?;
            at.assign(cache.gradients, &gradients[0])?;
            add(at, sums.loss_sum, &found.loss_sum)?;
            add(at, sums.weight_sum, &found.weight_sum)?;
            cache.clear(at)
        })
    }

    /// Records both passes of a part through the last chunk, which adds its gradients to those of earlier ones.
    pub(crate) fn record_cached_accumulate(
        &self,
        recorder: &Recorder,
        state: &TrainState,
        sizes: &BatchSizes,
    ) -> Result<RecordedStep> {
        recorder.record(&self.forward_inputs(sizes, self.last_chunk())?, |at| {
            let parameters = state.read_parameters(at, self.last_chunk())?;
            let embeddings = self.embedded(at, state, &parameters)?.output.logits.values;
            let first = self.first_text(at)?;
            let gradients = cache(state)?.gradients_of(at, &first, embeddings.dims()[0])?;
            // A scalar with these gradients of the embeddings.
            let product = embeddings.mul(&gradients)?.sum(&[0, 1])?;
            let loss = self.scaled(at, state, &product)?;
            self.accumulate(at, &loss, &parameters, self.last_chunk())
        })
    }

    /// The embeddings of this core's rows of a part.
    fn embedded(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
        parameters: &[ParameterValue<'_>],
    ) -> Result<Box<LastOutput>> {
        let row_offset = at.read(state.row_offset)?.add(&input(at, FIRST_ROW)?)?;
        match self.forward(at, state, parameters, &row_offset, self.last_chunk())? {
            Passed::Output(last) => Ok(last),
            Passed::States(_) => Err(missing_cache()),
        }
    }

    fn last_chunk(&self) -> usize {
        self.forward.chunks.count() - 1
    }

    /// The place of a part's first text in the cache.
    fn first_text(&self, at: &Recording<'_>) -> Result<Tensor> {
        let texts = self.forward.layout.sequences() as f64;
        Ok(input(at, CACHE_ROW)?.mul_scalar(texts)?)
    }
}

/// The labels of a part's texts, [N, W].
fn labels(at: &Recording<'_>, weights: &Tensor) -> Result<Tensor> {
    let labels = input(at, "labels")?;
    let texts = weights.dims()[0];
    Ok(labels.reshape(&[texts, labels.shape().element_count() / texts])?)
}

/// Cached labels as a batch has them: [N] where they are single numbers.
fn as_input(labels: &Tensor) -> Result<Tensor> {
    Ok(if labels.dims()[1] == 1 { labels.squeeze(1)? } else { labels.clone() })
}

fn cache(state: &TrainState) -> Result<&GradientCache> {
    state.gradient_cache.as_ref().ok_or_else(missing_cache)
}

fn missing_cache() -> Error {
    Error::Unsupported { setting: "mini_batch_size" }
}
