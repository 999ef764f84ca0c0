//! Causal language modeling: one linear layer without bias, usually the word
//! embeddings themselves.

use traind_xla::{DType, Tensor};

use super::of_vocabulary;
use crate::error::Result;
use crate::flops;
use crate::layers::{Linear, capped};
use crate::model::{
    Batch, Forward, Head, InputSpec, LanguageModelHead, Lengths, Output, OutputKind, Reads,
};
use crate::tasks::{causal_lm, token_labels};
use crate::tensor_parallel::Logits;

#[derive(Debug)]
pub(crate) struct CausalLmHead {
    pub decoder: Linear,
    pub hidden_size: usize,
    pub vocab_size: usize,
    pub transform: LogitsTransform,
}

/// The change of logits behind the last layer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogitsTransform {
    /// The number that they are divided by (Granite).
    pub divisor: Option<f64>,
    /// The bound to which tanh compresses them (Gemma 2).
    pub cap: Option<f64>,
}

impl LogitsTransform {
    fn apply(&self, logits: Tensor) -> Result<Tensor> {
        let logits = match self.divisor {
            Some(divisor) => logits.mul_scalar(1.0 / divisor)?,
            None => logits,
        };
        self.cap.map_or_else(|| Ok(logits.clone()), |cap| capped(&logits, cap))
    }
}

impl LanguageModelHead for CausalLmHead {
    fn logits(&self, cx: &Forward<'_>, hidden_states: &Tensor) -> Result<Logits> {
        let logits = self.decoder.forward(cx, &cx.fan_out(hidden_states)?)?;
        of_vocabulary(cx, &self.transform.apply(logits.convert(DType::F32)?)?, self.vocab_size)
    }
}

impl Head for CausalLmHead {
    fn inputs(&self) -> Vec<InputSpec> {
        token_labels::inputs(self.vocab_size)
    }

    fn output(&self) -> OutputKind {
        OutputKind::NextToken { classes: self.vocab_size }
    }

    fn divides_positions(&self) -> bool {
        true
    }

    fn reads(&self) -> Reads<'_> {
        Reads::BeforeLabels
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
