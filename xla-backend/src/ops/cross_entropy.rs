//! The loss of classification.

use super::composite::Composite;
use super::softmax::below_largest;
use super::{Backward, Problem, ResultStorage, check_float, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::tensor::Tensor;

#[derive(Debug)]
struct CrossEntropy;

impl Tensor {
    /// `torch.nn.functional.cross_entropy` without reduction: logits `[N, C]`
    /// and labels s32 `[N]` give losses `[N]`. A row whose label is no class,
    /// such as -100, has loss 0 and no gradient. The label's logit is found by
    /// comparison, which costs a pass over the row and no scatter backwards.
    pub fn cross_entropy(&self, labels: &Tensor) -> Result<Tensor> {
        self.apply(CrossEntropy, &[labels])
    }
}

/// Masks of the row's own class [N, C], and of the rows that have one [N, 1].
fn own_class(logits: &Tensor, labels: &Tensor) -> Result<(Tensor, Tensor)> {
    let classes = logits.dims()[1];
    let counted = labels.ge_scalar(0.0)?.and(&labels.lt_scalar(classes as f64)?)?;
    Ok((labels.is_class(classes)?, counted.unsqueeze(1)?))
}

impl Composite for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [logits, labels] = operands(inputs)?;
        check_float(logits)?;
        if logits.rank() != 2 || *labels != Shape::new(DType::S32, [logits.dims[0]]) {
            return Err("takes logits [N, C] and s32 labels [N]".into());
        }
        Ok(logits.with_dims([logits.dims[0]]))
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let logits = inputs[0].widen()?;
        let (own, counted) = own_class(&logits, &inputs[1])?;
        let (below, log) = below_largest(&logits, 1)?;
        let zeros = logits.trace().full(0.0, logits.shape().clone())?;
        let chosen = own.select(&below, &zeros)?.sum(&[1])?;
        let losses = log.squeeze(1)?.sub(&chosen)?;
        let none = losses.trace().full(0.0, losses.shape().clone())?;
        counted.squeeze(1)?.select(&losses, &none)?.convert(inputs[0].dtype())
    }

    /// (softmax - one-hot) dy.
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let logits = at.inputs[0].widen()?;
        let (own, counted) = own_class(&logits, &at.inputs[1])?;
        let error = logits.softmax(1)?.sub(&own.convert(logits.dtype())?)?;
        let cotangent = at.cotangent.widen()?.unsqueeze(1)?;
        let none = logits.trace().full(0.0, cotangent.shape().clone())?;
        let share = counted.select(&cotangent, &none)?;
        Ok(vec![Some(error.mul(&share)?.convert(at.inputs[0].dtype())?), None])
    }
}
