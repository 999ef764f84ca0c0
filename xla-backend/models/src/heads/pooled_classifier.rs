//! Sequence classification from the first token: a dense layer, an activation
//! and a linear layer, with dropout before each.

use traind_xla::{DType, Tensor};

use super::{Head, by_row};
use crate::error::Result;
use crate::flops;
use crate::layers::{Activation, Linear, dropout};
use crate::model::{Batch, Forward, InputSpec, Lengths, Output, OutputKind};
use crate::tasks::SequenceClassification;

#[derive(Debug)]
pub(crate) struct PooledClassifier {
    pub input_dropout: f64,
    pub dense: Linear,
    pub activation: Activation,
    pub dropout: f64,
    pub classifier: Linear,
    pub hidden_size: usize,
    pub task: SequenceClassification,
}

impl Head for PooledClassifier {
    fn inputs(&self) -> Vec<InputSpec> {
        self.task.inputs()
    }

    fn output(&self) -> OutputKind {
        OutputKind::PerRow { classes: self.task.num_labels }
    }

    fn forward(&self, cx: &Forward<'_>, hidden_states: &Tensor, batch: &Batch) -> Result<Output> {
        let first = by_row(hidden_states, batch)?.slice(1, 0, 1)?.squeeze(1)?;
        let first = dropout(cx, &first, self.input_dropout)?;
        let pooled = self.activation.forward(&self.dense.forward(cx, &first)?)?;
        let pooled = dropout(cx, &pooled, self.dropout)?;
        let logits = self.classifier.forward(cx, &pooled)?.convert(DType::F32)?;
        let loss = self.task.loss(&logits, batch)?;
        Ok(Output { logits: logits.into(), loss })
    }

    fn forward_flops(&self, _lengths: Lengths) -> f64 {
        let hidden = self.hidden_size as f64;
        flops::dot(hidden, hidden) + flops::dot(hidden, self.task.num_labels as f64)
    }
}
