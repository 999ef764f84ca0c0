//! Token classification: dropout and a linear layer on every token.

use traind_xla::{DType, Tensor};

use super::Head;
use crate::error::Result;
use crate::flops;
use crate::layers::{Linear, dropout};
use crate::model::{Batch, Forward, InputSpec, Lengths, Output, OutputKind};
use crate::parameters::ParameterPath;
use crate::tasks::token_labels;
use crate::tensor_parallel::Logits;

#[derive(Debug)]
pub(crate) struct TokenClassifier {
    dropout: f64,
    classifier: Linear,
    hidden_size: usize,
    num_labels: usize,
}

impl TokenClassifier {
    pub(crate) fn new(
        root: &mut ParameterPath<'_>,
        hidden_size: usize,
        std: f64,
        num_labels: usize,
        dropout: f64,
    ) -> TokenClassifier {
        let classifier = Linear::new(root.at("classifier"), hidden_size, num_labels, std);
        TokenClassifier { dropout, classifier, hidden_size, num_labels }
    }
}

impl Head for TokenClassifier {
    fn inputs(&self) -> Vec<InputSpec> {
        token_labels::inputs()
    }

    fn output(&self) -> OutputKind {
        OutputKind::PerToken { classes: self.num_labels }
    }

    fn forward(&self, cx: &Forward<'_>, hidden_states: &Tensor, batch: &Batch) -> Result<Output> {
        let x = dropout(cx, hidden_states, self.dropout)?;
        let logits = Logits::from(self.classifier.forward(cx, &x)?.convert(DType::F32)?);
        let loss = token_labels::loss(&logits, batch)?;
        Ok(Output { logits: logits.by_row(batch.rows()?)?, loss })
    }

    fn forward_flops(&self, lengths: Lengths) -> f64 {
        lengths.positions as f64 * flops::dot(self.hidden_size as f64, self.num_labels as f64)
    }
}
