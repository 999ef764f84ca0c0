//! A class for each token: token classification and masked language modeling.
//! Tokens whose label is no class, such as -100, are not counted.
//!
//! B rows, S positions, C classes, N tokens that have logits: B S, or as many as the head reads.

use traind_xla::{DType, Tensor};

use super::sample_weights::{sample_weights, sample_weights_input, weighted};
use crate::error::Result;
use crate::model::{
    Batch, IGNORED_LABEL, InputDim, InputSpec, InputValues, LossSum, OutputKind, ReadTokens,
};
use crate::tensor_parallel::Logits;

/// `labels` s32[B, S] below `classes`, and `sample_weights` f32[B].
pub(crate) fn inputs(classes: usize) -> Vec<InputSpec> {
    inputs_of(&[InputDim::Rows, InputDim::Positions], classes)
}

/// `labels` s32 of the sizes `dims` below `classes`, and `sample_weights` f32[B].
pub(crate) fn inputs_of(dims: &[InputDim], classes: usize) -> Vec<InputSpec> {
    let labels = InputSpec::target("labels", DType::S32, dims);
    vec![labels.of_values(InputValues::LabelsBelow(classes)), sample_weights_input()]
}

/// The loss of `logits` f32[N, C], where the batch holds labels.
pub(crate) fn loss(logits: &Logits, batch: &Batch) -> Result<Option<LossSum>> {
    let Some(labels) = batch.optional("labels") else { return Ok(None) };
    let tokens = TokenLabels::of_own(labels, logits.classes(), batch)?;
    weighted(&logits.cross_entropy(&tokens.labels)?, &tokens.weights).map(Some)
}

/// Labels and the weight of each token in the loss.
pub(super) struct TokenLabels {
    /// s32[N].
    pub labels: Tensor,
    /// f32[N]: the row's weight, and zero where the label is no class.
    pub weights: Tensor,
}

impl TokenLabels {
    /// The labels that a model's logits are compared with. `None` where the batch
    /// holds none, as in question answering, or none that are classes.
    pub(super) fn of_output(kind: OutputKind, batch: &Batch) -> Result<Option<TokenLabels>> {
        let Some(labels) = batch.optional("labels") else { return Ok(None) };
        if labels.dtype() != DType::S32 {
            return Ok(None);
        }
        Ok(match kind {
            OutputKind::Span | OutputKind::ReplacedTokens => None,
            OutputKind::PerRow { classes } => Some(TokenLabels::of_rows(labels, classes, batch)?),
            OutputKind::PerToken { classes } => Some(TokenLabels::of_own(labels, classes, batch)?),
            OutputKind::NextToken { classes } => {
                Some(TokenLabels::of_next(labels, classes, batch)?)
            }
        })
    }

    /// Takes labels s32[B].
    fn of_rows(labels: &Tensor, classes: usize, batch: &Batch) -> Result<TokenLabels> {
        let counted = is_class(labels, classes)?.convert(DType::F32)?;
        Ok(TokenLabels { labels: labels.clone(), weights: counted.mul(&sample_weights(batch)?)? })
    }

    /// Keeps the labels and weights of the tokens that are read, where these alone have logits.
    fn of_read(self, read: Option<ReadTokens>) -> Result<TokenLabels> {
        let Some(read) = read else { return Ok(self) };
        let labels = read.numbers_of_all(&self.labels, f64::from(IGNORED_LABEL))?;
        Ok(TokenLabels { labels, weights: read.numbers_of_all(&self.weights, 0.0)? })
    }

    /// Takes labels s32[B, S], which are compared with the logits of their own tokens.
    fn of_own(labels: &Tensor, classes: usize, batch: &Batch) -> Result<TokenLabels> {
        TokenLabels::new(labels, classes, batch)?.of_read(ReadTokens::labelled(batch)?)
    }

    /// Takes labels s32[B, S], which are compared with the logits of the tokens before them.
    pub(super) fn of_next(labels: &Tensor, classes: usize, batch: &Batch) -> Result<TokenLabels> {
        TokenLabels::new(&next(labels)?, classes, batch)?
            .of_read(ReadTokens::predicting_next(batch)?)
    }

    /// Takes labels s32[B, S] of all tokens.
    pub(super) fn new(labels: &Tensor, classes: usize, batch: &Batch) -> Result<TokenLabels> {
        let counted = is_class(labels, classes)?.convert(DType::F32)?;
        let weights = counted.mul(&sample_weights(batch)?.unsqueeze(1)?)?;
        let tokens = labels.shape().element_count();
        let (labels, weights) = (labels.reshape(&[tokens])?, weights.reshape(&[tokens])?);
        Ok(TokenLabels { labels, weights })
    }
}

/// A pred: true for labels from 0 up to but not `classes`.
pub(super) fn is_class(labels: &Tensor, classes: usize) -> Result<Tensor> {
    Ok(labels.ge_scalar(0.0)?.and(&labels.lt_scalar(classes as f64)?)?)
}

/// The label of the token behind each one, s32[B, S]; none behind the last.
pub(super) fn next(labels: &Tensor) -> Result<Tensor> {
    let positions = labels.dims()[1];
    Ok(labels.slice(1, 1, positions)?.pad(1, 0, 1, f64::from(IGNORED_LABEL))?)
}
