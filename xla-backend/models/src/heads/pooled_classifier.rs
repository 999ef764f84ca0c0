//! Sequence classification from the first token or the mean of all: a dense layer with its activation,
//! and a linear layer, with dropout before each. The mean may also be that of the tokens' logits.

use traind_xla::{DType, Tensor};

use super::{Transform, by_row};
use crate::error::Result;
use crate::flops;
use crate::layers::{Linear, dropout};
use crate::model::{Batch, Forward, Head, InputSpec, Lengths, Output, OutputKind, Reads};
use crate::tasks::SequenceClassification;

/// The vector of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pooling {
    First,
    /// The mean of the tokens that are not padding.
    Mean,
    /// The mean of their logits.
    MeanOfLogits,
}

#[derive(Debug)]
pub(crate) struct PooledClassifier {
    pub pooling: Pooling,
    pub input_dropout: f64,
    pub transform: Transform,
    pub dropout: f64,
    pub classifier: Linear,
    pub task: SequenceClassification,
}

impl Head for PooledClassifier {
    fn inputs(&self) -> Vec<InputSpec> {
        self.task.inputs()
    }

    fn output(&self) -> OutputKind {
        OutputKind::PerRow { classes: self.task.num_labels }
    }

    fn reads(&self) -> Reads<'_> {
        match self.pooling {
            Pooling::First => Reads::First,
            Pooling::Mean | Pooling::MeanOfLogits => Reads::All,
        }
    }

    fn forward(&self, cx: &Forward<'_>, hidden_states: &Tensor, batch: &Batch) -> Result<Output> {
        let pooled = match self.pooling {
            Pooling::First | Pooling::MeanOfLogits => hidden_states.clone(),
            Pooling::Mean => mean_of_tokens(hidden_states, batch)?,
        };
        let pooled = dropout(cx, &pooled, self.input_dropout)?;
        let pooled = dropout(cx, &self.transform.forward(cx, &pooled)?, self.dropout)?;
        let logits = self.classifier.forward(cx, &pooled)?.convert(DType::F32)?;
        let logits = match self.pooling {
            Pooling::MeanOfLogits => mean_of_tokens(&logits, batch)?,
            Pooling::First | Pooling::Mean => logits,
        };
        let loss = self.task.loss(&logits, batch)?;
        Ok(Output { logits: logits.into(), loss })
    }

    fn forward_flops(&self, lengths: Lengths) -> f64 {
        let width = self.transform.widths[1] as f64;
        let vector =
            self.transform.forward_flops() + flops::dot(width, self.task.num_labels as f64);
        match self.pooling {
            Pooling::First | Pooling::Mean => vector,
            Pooling::MeanOfLogits => lengths.positions as f64 * vector,
        }
    }
}

/// The mean of each row's tokens that are not padding: [B S, N] to [B, N].
fn mean_of_tokens(x: &Tensor, batch: &Batch) -> Result<Tensor> {
    let present = batch.get("attention_mask")?.convert(DType::F32)?;
    let sum = by_row(x, batch)?.mul(&present.unsqueeze(2)?)?.sum(&[1])?;
    Ok(sum.div(&present.sum_keep(&[1])?)?)
}
