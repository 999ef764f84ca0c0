//! The loss of classification.

use super::composite::Composite;
use super::softmax::below_largest;
use super::{Backward, Problem, ResultStorage, check_float, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::{CrossEntropyBackward, CrossEntropyForward, KernelUse};
use crate::tensor::Tensor;

/// Logits [N, C] and labels s32[N] give losses [N] and, if it keeps them, as a second result the
/// statistics of each row [2, N]: the largest logit, and the sum of exponentials of how far the
/// others are below it.
#[derive(Debug)]
struct CrossEntropy {
    keeps_statistics: bool,
}

/// Logits, labels, statistics and the losses' cotangent give that of the logits.
#[derive(Debug)]
struct CrossEntropyGradient;

impl Tensor {
    /// `torch.nn.functional.cross_entropy` without reduction: logits `[N, C]`
    /// and labels s32 `[N]` give losses `[N]`. A row whose label is no class,
    /// such as -100, has loss 0 and no gradient. The label's logit is found by
    /// comparison, which costs a pass over the row and no scatter backwards.
    pub fn cross_entropy(&self, labels: &Tensor) -> Result<Tensor> {
        let keeps_statistics = self.trace().calls_kernels();
        self.apply(CrossEntropy { keeps_statistics }, &[labels])
    }
}

/// Masks of the row's own class [N, C], and of the rows that have one [N, 1].
fn own_class(logits: &Tensor, labels: &Tensor) -> Result<(Tensor, Tensor)> {
    let classes = logits.dims()[1];
    let counted = labels.ge_scalar(0.0)?.and(&labels.lt_scalar(classes as f64)?)?;
    Ok((labels.is_class(classes)?, counted.unsqueeze(1)?))
}

fn statistics_shape(logits: &Shape) -> Shape {
    let dtype = if logits.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    Shape::new(dtype, [2, logits.dims[0]])
}

/// (softmax - one-hot) times the cotangent.
fn backward(logits: &Tensor, labels: &Tensor, cotangent: &Tensor) -> Result<Tensor> {
    let dtype = logits.dtype();
    let logits = logits.widen()?;
    let (own, counted) = own_class(&logits, labels)?;
    let error = logits.softmax(1)?.sub(&own.convert(logits.dtype())?)?;
    let cotangent = cotangent.widen()?.unsqueeze(1)?;
    let none = logits.trace().full(0.0, cotangent.shape().clone())?;
    let share = counted.select(&cotangent, &none)?;
    error.mul(&share)?.convert(dtype)
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

    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let losses = self.expand(inputs)?;
        if !self.keeps_statistics {
            return Ok(vec![losses]);
        }
        let (logits, rows) = (inputs[0].widen()?, losses.dims()[0]);
        let (_, log) = below_largest(&logits, 1)?;
        let [largest, sum] = [logits.max(&[1])?, log.exp()?].map(|x| x.reshape(&[1, rows]));
        Ok(vec![losses, logits.trace().concatenate(&[&largest?, &sum?], 0)?])
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let has_kernel = self.keeps_statistics && inputs[0].dtype == DType::F32;
        has_kernel.then(|| KernelUse::of::<CrossEntropyForward>(String::new()))
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (logits, labels) = (&at.inputs[0], &at.inputs[1]);
        if !self.keeps_statistics {
            return Ok(vec![Some(backward(logits, labels, at.cotangent)?), None]);
        }
        let statistics = at.output.part(1, statistics_shape(logits.shape()))?;
        let rest = [labels, &statistics, at.cotangent];
        Ok(vec![Some(logits.apply(CrossEntropyGradient, &rest)?), None])
    }
}

impl Composite for CrossEntropyGradient {
    fn name(&self) -> &'static str {
        "cross_entropy_gradient"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [logits, labels, statistics, cotangent] = operands(inputs)?;
        check_float(logits)?;
        let fits = logits.rank() == 2 && *labels == Shape::new(DType::S32, [logits.dims[0]]);
        if !fits || *statistics != statistics_shape(logits) {
            return Err("takes logits [N, C], s32 labels [N] and statistics [2, N]".into());
        }
        if *cotangent != logits.with_dims([logits.dims[0]]) {
            return Err("takes a cotangent for each row".into());
        }
        Ok(logits.clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        backward(&inputs[0], &inputs[1], &inputs[3])
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let is_f32 = inputs[0].dtype == DType::F32;
        is_f32.then(|| KernelUse::of::<CrossEntropyBackward>(String::new()).in_place(vec![[0, 0]]))
    }
}
