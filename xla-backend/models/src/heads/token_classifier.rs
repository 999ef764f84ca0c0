//! Token classification: on every token, in some families a dense layer with its activation, then
//! dropout and a linear layer.

use traind_xla::{DType, Tensor};

use super::Transform;
use crate::error::Result;
use crate::flops;
use crate::layers::{Linear, dropout};
use crate::model::{Batch, Forward, Head, InputSpec, Lengths, Output, OutputKind};
use crate::parameters::{Init, ParameterPath};
use crate::tasks::token_labels;
use crate::tensor_parallel::Logits;

#[derive(Debug)]
pub(crate) struct TokenClassifier {
    transform: Option<Transform>,
    dropout: f64,
    classifier: Linear,
    hidden_size: usize,
    num_labels: usize,
}

impl TokenClassifier {
    pub(crate) fn new(
        root: &mut ParameterPath<'_>,
        hidden_size: usize,
        init: impl Into<Init>,
        num_labels: usize,
        dropout: f64,
    ) -> TokenClassifier {
        let classifier = Linear::new(root.at("classifier"), hidden_size, num_labels, init);
        TokenClassifier { transform: None, dropout, classifier, hidden_size, num_labels }
    }

    pub(crate) fn behind(self, transform: Transform) -> TokenClassifier {
        TokenClassifier { transform: Some(transform), ..self }
    }
}

impl Head for TokenClassifier {
    fn inputs(&self) -> Vec<InputSpec> {
        token_labels::inputs(self.num_labels)
    }

    fn output(&self) -> OutputKind {
        OutputKind::PerToken { classes: self.num_labels }
    }

    fn forward(&self, cx: &Forward<'_>, hidden_states: &Tensor, batch: &Batch) -> Result<Output> {
        let x = Transform::forward_optional(self.transform.as_ref(), cx, hidden_states)?;
        let x = dropout(cx, &x, self.dropout)?;
        let logits = Logits::from(self.classifier.forward(cx, &x)?.convert(DType::F32)?);
        let loss = token_labels::loss(&logits, batch)?;
        Ok(Output { logits: logits.by_row(batch.rows()?)?, loss })
    }

    fn forward_flops(&self, lengths: Lengths) -> f64 {
        let transform = self.transform.as_ref().map_or(0.0, Transform::forward_flops);
        let token = transform + flops::dot(self.hidden_size as f64, self.num_labels as f64);
        lengths.positions as f64 * token
    }
}
