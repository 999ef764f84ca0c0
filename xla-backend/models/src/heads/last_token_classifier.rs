//! Sequence classification of a causal model: one linear layer on the last
//! token that is not padding, the only one that has seen the whole row.

use traind_xla::{DType, Tensor};

use crate::error::Result;
use crate::flops;
use crate::layers::Linear;
use crate::model::{Batch, Forward, Head, InputSpec, Lengths, Output, OutputKind, Reads};
use crate::tasks::SequenceClassification;

#[derive(Debug)]
pub(crate) struct LastTokenClassifier {
    pub score: Linear,
    /// The id of the padding token. Without one, a batch of the Trainer is one row.
    pub pad_token_id: Option<usize>,
    pub hidden_size: usize,
    pub task: SequenceClassification,
}

impl LastTokenClassifier {
    /// The position of each row's last token that is not padding, s32[B];
    /// that of its first token where all are. Without a padding token it is the last
    /// one that is attended to.
    fn last_tokens(&self, batch: &Batch) -> Result<Tensor> {
        let ids = batch.get("input_ids")?;
        let trace = ids.trace();
        let is_token = match self.pad_token_id {
            Some(id) => ids.ne_scalar(id as f64)?.convert(DType::S32)?,
            None => batch.get("attention_mask")?.clone(),
        };
        Ok(trace.iota(DType::S32, ids.dims(), 1)?.mul(&is_token)?.max(&[1])?)
    }
}

impl Head for LastTokenClassifier {
    fn inputs(&self) -> Vec<InputSpec> {
        self.task.inputs()
    }

    fn rows_max(&self) -> Option<usize> {
        self.pad_token_id.is_none().then_some(1)
    }

    fn output(&self) -> OutputKind {
        OutputKind::PerRow { classes: self.task.num_labels }
    }

    fn reads(&self) -> Reads<'_> {
        Reads::one_of_row(|batch| self.last_tokens(batch))
    }

    fn forward(&self, cx: &Forward<'_>, last: &Tensor, batch: &Batch) -> Result<Output> {
        let logits = self.score.forward(cx, last)?.convert(DType::F32)?;
        let loss = self.task.loss(&logits, batch)?;
        Ok(Output { logits: logits.into(), loss })
    }

    fn forward_flops(&self, _lengths: Lengths) -> f64 {
        flops::dot(self.hidden_size as f64, self.task.num_labels as f64)
    }
}
