//! The place of the largest element.

use super::check_axis;
use crate::error::{Error, Result};
use crate::graph::DType;
use crate::tensor::Tensor;

impl Tensor {
    /// The s32 index of the largest element along `axis`, which disappears;
    /// the first of equals. Made of a maximum, a comparison and a minimum:
    /// Neuron has no reduction over pairs. NaN gives the last index.
    pub fn argmax(&self, axis: usize) -> Result<Tensor> {
        check_axis(axis, self.shape()).map_err(|problem| Error::Shape {
            op: "argmax".to_owned(),
            problem: problem.0,
            inputs: vec![self.shape().clone()],
        })?;
        let largest = self.eq(&self.max_keep(&[axis])?)?;
        let places = self.trace().iota(DType::S32, self.dims(), axis)?;
        let last = self.dims()[axis].saturating_sub(1);
        let none = self.trace().full(last as f64, places.shape().clone())?;
        largest.select(&places, &none)?.min(&[axis])
    }
}
