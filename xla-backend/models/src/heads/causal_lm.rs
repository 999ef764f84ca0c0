//! Causal language modeling: one linear layer without bias, usually the word
//! embeddings themselves.

use traind_xla::Tensor;

use super::{Head, LanguageModelHead, vocabulary_logits};
use crate::error::Result;
use crate::flops;
use crate::layers::Linear;
use crate::model::{Batch, Forward, InputSpec, Lengths, Output, OutputKind};
use crate::tasks::{causal_lm, token_labels};
use crate::tensor_parallel::Logits;

#[derive(Debug)]
pub(crate) struct CausalLmHead {
    pub decoder: Linear,
    pub hidden_size: usize,
    pub vocab_size: usize,
}

impl LanguageModelHead for CausalLmHead {
    fn logits(&self, cx: &Forward<'_>, hidden_states: &Tensor) -> Result<Logits> {
        vocabulary_logits(cx, &self.decoder, hidden_states, self.vocab_size)
    }
}

impl Head for CausalLmHead {
    fn inputs(&self) -> Vec<InputSpec> {
        token_labels::inputs()
    }

    fn output(&self) -> OutputKind {
        OutputKind::NextToken { classes: self.vocab_size }
    }

    fn divides_positions(&self) -> bool {
        true
    }

    fn forward(&self, cx: &Forward<'_>, hidden_states: &Tensor, batch: &Batch) -> Result<Output> {
        let logits = self.logits(cx, hidden_states)?;
        let loss = causal_lm::loss(&logits, batch)?;
        Ok(Output { logits: logits.by_row(batch.rows()?)?, loss })
    }

    fn as_language_model(&self) -> Option<&dyn LanguageModelHead> {
        Some(self)
    }

    fn forward_flops(&self, lengths: Lengths) -> f64 {
        lengths.positions as f64 * flops::dot(self.hidden_size as f64, self.vocab_size as f64)
    }
}
