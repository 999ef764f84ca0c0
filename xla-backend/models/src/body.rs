//! Models of two parts: a body that reads tokens, and the head of one task.

use std::ops::Range;

use traind_xla::Tensor;

use crate::config::ModelConfig;
use crate::error::Result;
use crate::heads::Head;
use crate::model::{Batch, Forward, HiddenStates, InputSpec, Lengths, Model, Output, OutputKind};
use crate::parameters::{ParameterPath, ParameterSpec};
use crate::tuning::Adapters;

/// Reads the tokens of a batch.
pub(crate) trait Body: std::fmt::Debug + Send + Sync {
    /// [`Model::base_model_prefix`].
    fn prefix(&self) -> &'static str;

    fn inputs(&self) -> Vec<InputSpec>;

    fn num_layers(&self) -> usize;

    /// [`Model::embeddings`].
    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates>;

    /// [`Model::layers`].
    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates>;

    /// The input of the head, f32[B S, H], from the last layer's states.
    fn finish(&self, _cx: &Forward<'_>, states: &HiddenStates) -> Result<Tensor> {
        Ok(states.last.clone())
    }

    /// [`Model::is_tensor_parallel`]. A body whose layers do not pass their parts between cores would
    /// compute something else.
    fn is_tensor_parallel(&self) -> bool {
        false
    }

    fn vocab_size(&self) -> usize;

    fn max_positions(&self) -> usize;

    /// Floating-point operations of one row.
    fn forward_flops(&self, lengths: Lengths) -> f64;
}

#[derive(Debug)]
struct HeadedModel {
    config: ModelConfig,
    parameters: Vec<ParameterSpec>,
    adapters: Adapters,
    body: Box<dyn Body>,
    head: Box<dyn Head>,
}

/// Builds a model of parts that declare their parameters below the root.
pub(crate) fn assemble<B: Body + 'static, H: Head + 'static>(
    config: ModelConfig,
    parts: impl FnOnce(&ModelConfig, &mut ParameterPath<'_>) -> Result<(B, H)>,
) -> Result<Box<dyn Model>> {
    let mut parameters = Vec::new();
    let (body, head) = parts(&config, &mut ParameterPath::root(&mut parameters))?;
    let (body, head) = (Box::new(body), Box::new(head));
    let adapters = Adapters::default();
    Ok(Box::new(HeadedModel { config, parameters, adapters, body, head }))
}

impl Model for HeadedModel {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn parameters(&self) -> &[ParameterSpec] {
        &self.parameters
    }

    fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    fn tune(&mut self, parameters: Vec<ParameterSpec>, adapters: Adapters) {
        (self.parameters, self.adapters) = (parameters, adapters);
    }

    fn base_model_prefix(&self) -> &'static str {
        self.body.prefix()
    }

    fn inputs(&self) -> Vec<InputSpec> {
        let mut inputs = self.body.inputs();
        inputs.extend(self.head.inputs());
        inputs
    }

    fn rows_max(&self) -> Option<usize> {
        self.head.rows_max()
    }

    fn output(&self) -> OutputKind {
        self.head.output()
    }

    fn num_layers(&self) -> usize {
        self.body.num_layers()
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        cx.scope("embeddings", || self.body.embeddings(cx, batch))
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        self.body.layers(cx, layers, states, batch)
    }

    fn head(&self, cx: &Forward<'_>, states: &HiddenStates, batch: &Batch) -> Result<Output> {
        cx.after(&states.last, |cx| {
            let hidden_states = self.body.finish(cx, states)?;
            cx.scope("head", || self.head.forward(cx, &hidden_states, batch))
        })
    }

    fn is_tensor_parallel(&self) -> bool {
        self.body.is_tensor_parallel()
    }

    fn vocab_size(&self) -> usize {
        self.body.vocab_size()
    }

    fn max_positions(&self) -> usize {
        self.body.max_positions()
    }

    fn forward_flops(&self, rows: usize, lengths: Lengths) -> f64 {
        rows as f64 * (self.body.forward_flops(lengths) + self.head.forward_flops(lengths))
    }
}
