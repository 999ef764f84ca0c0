//! Classification by one linear layer on the first token.

use traind_xla::{DType, Tensor};

use crate::error::Result;
use crate::flops;
use crate::layers::Linear;
use crate::model::{Batch, Forward, Head, InputSpec, Lengths, Output, OutputKind, Reads};
use crate::tasks::SequenceClassification;

#[derive(Debug)]
pub(crate) struct FirstTokenClassifier {
    pub classifier: Linear,
    pub hidden_size: usize,
    pub task: SequenceClassification,
}

impl Head for FirstTokenClassifier {
    fn inputs(&self) -> Vec<InputSpec> {
        self.task.inputs()
    }

    fn output(&self) -> OutputKind {
        OutputKind::PerRow { classes: self.task.num_labels }
    }

    fn reads(&self) -> Reads<'_> {
        Reads::First
    }

    fn forward(&self, cx: &Forward<'_>, first: &Tensor, batch: &Batch) -> Result<Output> {
        let logits = self.classifier.forward(cx, first)?.convert(DType::F32)?;
        let loss = self.task.loss(&logits, batch)?;
        Ok(Output { logits: logits.into(), loss })
    }

    fn forward_flops(&self, _lengths: Lengths) -> f64 {
        flops::dot(self.hidden_size as f64, self.task.num_labels as f64)
    }
}
