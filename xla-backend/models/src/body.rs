//! How most models are put together: a body that reads tokens, and a head that
//! answers one task.

use traind_xla::Tensor;

use crate::config::ModelConfig;
use crate::error::Result;
use crate::heads::Head;
use crate::model::{Batch, Forward, InputSpec, Model, Output, OutputKind};
use crate::parameters::{ParameterPath, ParameterSpec};

/// Reads the tokens of a batch.
pub(crate) trait Body: std::fmt::Debug + Send + Sync {
    /// [`Model::base_model_prefix`].
    fn prefix(&self) -> &'static str;

    fn inputs(&self) -> Vec<InputSpec>;

    /// The last hidden states f32[B S, H]. They have two axes, as all values
    /// between layers: with three, XLA's CPU backend puts a change of shape
    /// between each dot and what surrounds it, and then computes the whole
    /// backward pass so far again in each operation that reads it.
    fn forward(&self, cx: &Forward<'_>, batch: &Batch) -> Result<Tensor>;

    fn vocab_size(&self) -> usize;

    fn max_positions(&self) -> usize;

    /// Operations of one row.
    fn forward_flops(&self, positions: usize) -> f64;
}

#[derive(Debug)]
struct HeadedModel {
    config: ModelConfig,
    parameters: Vec<ParameterSpec>,
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
    Ok(Box::new(HeadedModel { config, parameters, body, head }))
}

impl Model for HeadedModel {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn parameters(&self) -> &[ParameterSpec] {
        &self.parameters
    }

    fn base_model_prefix(&self) -> &'static str {
        self.body.prefix()
    }

    fn inputs(&self) -> Vec<InputSpec> {
        let mut inputs = self.body.inputs();
        inputs.extend(self.head.inputs());
        inputs
    }

    fn output(&self) -> OutputKind {
        self.head.output()
    }

    fn forward(&self, cx: &Forward<'_>, batch: &Batch) -> Result<Output> {
        let hidden_states = self.body.forward(cx, batch)?;
        cx.scope("head", || self.head.forward(cx, &hidden_states, batch))
    }

    fn vocab_size(&self) -> usize {
        self.body.vocab_size()
    }

    fn max_positions(&self) -> usize {
        self.body.max_positions()
    }

    fn forward_flops(&self, rows: usize, positions: usize) -> f64 {
        rows as f64 * (self.body.forward_flops(positions) + self.head.forward_flops(positions))
    }
}
