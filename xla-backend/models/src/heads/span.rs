//! Extractive question answering: dropout and a linear layer give each token a score as the answer's
//! start and one as its end. In some families, they stand behind a dense layer with its activation.

use traind_xla::{DType, Tensor};

use super::{Transform, by_row};
use crate::error::Result;
use crate::flops;
use crate::layers::{Linear, dropout};
use crate::model::{Batch, Forward, Head, InputSpec, Lengths, Output, OutputKind};
use crate::parameters::ParameterPath;
use crate::tasks::question_answering;

/// Start and end.
pub(crate) const SPAN_SCORES: usize = 2;

#[derive(Debug)]
pub(crate) struct SpanHead {
    transform: Option<Transform>,
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
        SpanHead { transform: None, dropout, outputs, hidden_size }
    }

    /// The linear layer `outputs` behind a transform.
    pub(crate) fn behind(transform: Transform, dropout: f64, outputs: Linear) -> SpanHead {
        let hidden_size = transform.widths[1];
        SpanHead { transform: Some(transform), dropout, outputs, hidden_size }
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
        let x = Transform::forward_optional(self.transform.as_ref(), cx, hidden_states)?;
        let x = dropout(cx, &x, self.dropout)?;
        let logits = self.outputs.forward(cx, &x)?.convert(DType::F32)?;
        let logits = by_row(&logits, batch)?;
        let loss = question_answering::loss(&logits, batch)?;
        Ok(Output { logits: logits.into(), loss })
    }

    fn forward_flops(&self, lengths: Lengths) -> f64 {
        let transform = self.transform.as_ref().map_or(0.0, Transform::forward_flops);
        let token = transform + flops::dot(self.hidden_size as f64, SPAN_SCORES as f64);
        lengths.positions as f64 * token
    }
}
