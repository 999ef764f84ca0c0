//! One element of each row, and rows that hold a single one.

use super::{Problem, check_axis};
use crate::error::{Error, Result};
use crate::graph::DType;
use crate::tensor::Tensor;

/// Numbers of elements up to this are exact, also on devices that compute 32-bit integers in float32.
const ELEMENTS_MAX: usize = 1 << 24;

impl Tensor {
    /// `result[i, j, …] = self[i, indices[i, j, …], …]` along `axis`: indices
    /// (s32) have this tensor's dimensions beside `axis`. Numbers outside are
    /// clamped. Composed of a look-up in the flattened tensor, which may have 2^24 elements.
    pub fn take_along_axis(&self, indices: &Tensor, axis: usize) -> Result<Tensor> {
        self.check_indices(indices, axis).map_err(|problem| Error::Shape {
            op: "take_along_axis".to_owned(),
            problem: problem.0,
            inputs: vec![self.shape().clone(), indices.shape().clone()],
        })?;
        let last = self.rank() - 1;
        let rows = self.swap_axes(axis, last)?;
        let within = indices.swap_axes(axis, last)?;
        let size = self.dims()[axis];
        let count = self.shape().element_count() / size;
        let clamped = within.maximum_scalar(0.0)?.minimum_scalar((size - 1) as f64)?;
        let by_row = clamped.reshape(&[count, indices.dims()[axis]])?;
        let starts = self.trace().iota(DType::S32, by_row.dims(), 0)?.mul_scalar(size as f64)?;
        let flat = rows.reshape(&[self.shape().element_count()])?;
        flat.take(&by_row.add(&starts)?)?.reshape(within.dims())?.swap_axes(axis, last)
    }

    /// 1 at the index (s32) and 0 elsewhere, along a new last axis of size
    /// `classes`; all 0 for an index outside.
    pub fn one_hot(&self, classes: usize, dtype: DType) -> Result<Tensor> {
        self.is_class(classes)?.convert(dtype)
    }

    /// [`Tensor::one_hot`] as pred.
    pub fn is_class(&self, classes: usize) -> Result<Tensor> {
        let dims = [self.dims(), &[classes]].concat();
        let numbers = self.trace().iota(self.dtype(), &dims, self.rank())?;
        self.unsqueeze(self.rank())?.eq(&numbers)
    }

    fn check_indices(&self, indices: &Tensor, axis: usize) -> Result<(), Problem> {
        check_axis(axis, self.shape())?;
        let mut expected = self.dims().to_vec();
        expected[axis] = indices.dims().get(axis).copied().unwrap_or_default();
        if indices.dtype() != DType::S32 || indices.dims() != expected {
            return Err(format!("indices must be s32 and as large beside axis {axis}").into());
        }
        if self.dims()[axis] == 0 {
            return Err("there is nothing to take from".into());
        }
        if self.shape().element_count() > ELEMENTS_MAX {
            return Err("numbers of more than 2^24 elements are not exact on all devices".into());
        }
        Ok(())
    }
}
