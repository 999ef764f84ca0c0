//! Language modeling behind a decoder that attends to a source: one linear layer, usually the
//! word embeddings themselves. The labels of a token stand at its own position, since the
//! decoder's inputs are the labels shifted right.

use traind_xla::{DType, Tensor};

use super::of_vocabulary;
use crate::error::Result;
use crate::flops;
use crate::layers::Linear;
use crate::model::{
    Batch, Forward, Head, InputDim, InputSpec, LanguageModelHead, Lengths, Output, OutputKind,
};
use crate::tasks::token_labels;
use crate::tensor_parallel::Logits;

#[derive(Debug)]
pub(crate) struct Seq2SeqLmHead {
    pub decoder: Linear,
    /// The factor of the states before the linear layer, where there is one.
    pub scale: Option<f64>,
    /// The name of a vector f32[1, V] that is added to the logits.
    pub bias: Option<String>,
    pub hidden_size: usize,
    pub vocab_size: usize,
}

impl LanguageModelHead for Seq2SeqLmHead {
    fn logits(&self, cx: &Forward<'_>, hidden_states: &Tensor) -> Result<Logits> {
        let states = match self.scale {
            Some(scale) => hidden_states.mul_scalar(scale)?,
            None => hidden_states.clone(),
        };
        let mut logits = self.decoder.forward(cx, &cx.fan_out(&states)?)?.convert(DType::F32)?;
        if let Some(name) = &self.bias {
            logits = logits.add(&cx.parameter(name)?)?;
        }
        of_vocabulary(cx, &logits, self.vocab_size)
    }
}

impl Head for Seq2SeqLmHead {
    fn inputs(&self) -> Vec<InputSpec> {
        token_labels::inputs_of(&[InputDim::Rows, InputDim::TargetPositions], self.vocab_size)
    }

    fn output(&self) -> OutputKind {
        OutputKind::PerToken { classes: self.vocab_size }
    }

    fn divides_positions(&self) -> bool {
        true
    }

    fn forward(&self, cx: &Forward<'_>, hidden_states: &Tensor, batch: &Batch) -> Result<Output> {
        let logits = self.logits(cx, hidden_states)?;
        let loss = token_labels::loss(&logits, batch)?;
        Ok(Output { logits: logits.by_row(batch.rows()?)?, loss })
    }

    fn as_language_model(&self) -> Option<&dyn LanguageModelHead> {
        Some(self)
    }

    fn forward_flops(&self, lengths: Lengths) -> f64 {
        let positions = lengths.target_positions as f64;
        positions * flops::dot(self.hidden_size as f64, self.vocab_size as f64)
    }
}
