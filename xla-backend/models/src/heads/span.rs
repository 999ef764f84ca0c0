//! Extractive question answering: dropout and a linear layer give each token a
//! score as the answer's start and one as its end.

use traind_xla::{DType, Tensor};

use super::{Head, by_row};
use crate::error::Result;
use crate::flops;
use crate::layers::{Linear, dropout};
use crate::model::{Batch, Forward, InputSpec, Lengths, Output, OutputKind};
use crate::parameters::ParameterPath;
use crate::tasks::question_answering;

/// Start and end.
pub(crate) const SPAN_SCORES: usize = 2;

#[derive(Debug)]
pub(crate) struct SpanHead {
    dropout: f64,
    outputs: Linear,
    hidden_size: usize,
}

impl SpanHead {
    pub(crate) fn new(
        root: &mut ParameterPath<'_>,
        hidden_size: usize,
        std: f64,
        dropout: f64,
    ) -> SpanHead {
        let outputs = Linear::new(root.at("qa_outputs"), hidden_size, SPAN_SCORES, std);
        SpanHead { dropout, outputs, hidden_size }
    }
}

impl Head for SpanHead {
    fn inputs(&self) -> Vec<InputSpec> {
        question_answering::inputs()
    }

    fn output(&self) -> OutputKind {
        OutputKind::Span
    }

    fn forward(&self, cx: &Forward<'_>, hidden_states: &Tensor, batch: &Batch) -> Result<Output> {
        let x = dropout(cx, hidden_states, self.dropout)?;
        let logits = self.outputs.forward(cx, &x)?.convert(DType::F32)?;
        let logits = by_row(&logits, batch)?;
        let loss = question_answering::loss(&logits, batch)?;
        Ok(Output { logits: logits.into(), loss })
    }

    fn forward_flops(&self, lengths: Lengths) -> f64 {
        lengths.positions as f64 * flops::dot(self.hidden_size as f64, SPAN_SCORES as f64)
    }
}
