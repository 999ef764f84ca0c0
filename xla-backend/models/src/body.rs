//! Models of two parts: a body that reads tokens, and the head of one task.

use std::ops::Range;

use traind_xla::{DType, Tensor};

use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::heads::Head;
use crate::model::{Batch, Forward, HiddenStates, InputSpec, Lengths, Model, Output, OutputKind};
use crate::parameters::{ParameterPath, ParameterSpec};
use crate::tensor_parallel::token_dims;
use crate::tuning::Adapters;

/// Reads the tokens of a batch.
pub(crate) trait Body: std::fmt::Debug + Send + Sync {
    /// [`Model::base_model_prefix`].
    fn prefix(&self) -> &'static str;

    fn inputs(&self) -> Vec<InputSpec>;

    fn num_layers(&self) -> usize;

    /// [`Model::traces_alike`].
    fn traces_alike(&self, _layer: usize, _other: usize) -> bool {
        true
    }

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

    /// The numbers of rows and of positions, [B, S], of the tokens that the last states stand for.
    fn token_dims(&self, batch: &Batch) -> Result<[usize; 2]> {
        Ok(token_dims(batch.get("input_ids")?))
    }

    /// Whether it is a decoder whose attention reads a cache. A body whose layers take positions or
    /// masks from elsewhere would compute something else.
    fn is_generative(&self) -> bool {
        false
    }

    /// [`Model::is_tensor_parallel`]. A body whose layers do not pass their parts between cores would
    /// compute something else.
    fn is_tensor_parallel(&self) -> bool {
        false
    }

    /// [`Model::packs_tokens`].
    fn packs_tokens(&self) -> bool {
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

impl HeadedModel {
    fn head_of(&self, cx: &Forward<'_>, states: &Tensor, batch: &Batch) -> Result<Output> {
        if self.head.divides_positions() {
            return self.head.forward(cx, states, batch);
        }
        cx.with_all_positions(states, |cx, states| self.head.forward(cx, states, batch))
    }
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

    fn traces_alike(&self, layer: usize, other: usize) -> bool {
        self.body.traces_alike(layer, other)
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        cx.over_positions(self.body.token_dims(batch)?, |cx| {
            cx.scope("embeddings", || self.body.embeddings(cx, batch))
        })
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        cx.over_positions(self.body.token_dims(batch)?, |cx| {
            self.body.layers(cx, layers, states, batch)
        })
    }

    fn head(&self, cx: &Forward<'_>, states: &HiddenStates, batch: &Batch) -> Result<Output> {
        cx.over_positions(self.body.token_dims(batch)?, |cx| {
            cx.ahead_of(&states.last, |cx| {
                let hidden_states = self.body.finish(cx, states)?;
                cx.scope("head", || self.head_of(cx, &hidden_states, batch))
            })
        })
    }

    fn is_generative(&self) -> bool {
        self.body.is_generative() && self.head.as_language_model().is_some()
    }

    fn next_token_logits(
        &self,
        cx: &Forward<'_>,
        batch: &Batch,
        last: Option<&Tensor>,
    ) -> Result<Tensor> {
        let head = self.head.as_language_model().filter(|_| self.body.is_generative());
        let Some(head) = head else {
            let model_type = self.config.model_type()?.to_owned();
            return Err(Error::NoGeneration { model_type });
        };
        let states = self.embeddings(cx, batch)?;
        let mut states = self.layers(cx, 0..self.num_layers(), states, batch)?;
        if let Some(last) = last {
            states.last = last_states(&states.last, last)?;
        }
        let states = self.body.finish(cx, &states)?;
        cx.scope("head", || head.logits(cx, &states)?.whole())
    }

    fn is_tensor_parallel(&self) -> bool {
        self.body.is_tensor_parallel()
    }

    fn packs_tokens(&self) -> bool {
        self.body.packs_tokens()
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

/// The states f32[B, H] at the places `last` s32[B] of the rows of `states` f32[B S, H].
fn last_states(states: &Tensor, last: &Tensor) -> Result<Tensor> {
    let rows = last.dims()[0];
    let positions = states.dims()[0] / rows;
    let first = states.trace().iota(DType::S32, &[rows], 0)?.mul_scalar(positions as f64)?;
    Ok(states.take(&first.add(last)?)?)
}
