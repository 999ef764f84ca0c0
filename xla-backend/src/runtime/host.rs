//! An array in host memory: what is uploaded to a core or read back from one.

use std::ops::Range;

use bytemuck::{AnyBitPattern, NoUninit};

use crate::error::{Error, Result};
use crate::graph::{DType, Shape};

/// Row-major elements of one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostArray {
    shape: Shape,
    bytes: Vec<u8>,
}

impl HostArray {
    /// Takes raw little-endian bytes; their count must be the shape's.
    pub fn from_bytes(shape: Shape, bytes: Vec<u8>) -> Result<HostArray> {
        if bytes.len() == shape.size_bytes() {
            return Ok(HostArray { shape, bytes });
        }
        let what = format!("bytes of {shape}");
        Err(Error::Count { what, expected: shape.size_bytes(), got: bytes.len() })
    }

    /// Zeros of a shape.
    pub fn zeros(shape: Shape) -> HostArray {
        HostArray { bytes: vec![0; shape.size_bytes()], shape }
    }

    /// Row-major values; their count must be the product of `dims`.
    pub fn from_f32(dims: &[usize], values: &[f32]) -> Result<HostArray> {
        HostArray::from_values(DType::F32, dims, values)
    }

    /// Row-major values; their count must be the product of `dims`.
    pub fn from_s32(dims: &[usize], values: &[i32]) -> Result<HostArray> {
        HostArray::from_values(DType::S32, dims, values)
    }

    /// Row-major values; their count must be the product of `dims`.
    pub fn from_u32(dims: &[usize], values: &[u32]) -> Result<HostArray> {
        HostArray::from_values(DType::U32, dims, values)
    }

    /// Returns the type and the dimensions.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The elements, little-endian and row-major.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the elements, row-major and little-endian.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The elements, row-major; refuses an array of another dtype.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        self.to_values(DType::F32)
    }

    /// The elements, row-major; refuses an array of another dtype.
    pub fn to_s32(&self) -> Result<Vec<i32>> {
        self.to_values(DType::S32)
    }

    /// Some rows of an array of rows.
    pub fn rows(&self, rows: Range<usize>) -> Result<HostArray> {
        let dims = &self.shape.dims;
        let count = dims.first().copied().unwrap_or_default();
        let row_bytes = self.bytes.len() / count.max(1);
        let bytes = self.bytes.get(rows.start * row_bytes..rows.end * row_bytes);
        let bytes = bytes.ok_or_else(|| Error::Count {
            what: format!("rows of {}", self.shape),
            expected: count,
            got: rows.end,
        })?;
        let dims = [&[rows.len()], dims.get(1..).unwrap_or_default()].concat();
        HostArray::from_bytes(self.shape.with_dims(dims), bytes.to_vec())
    }

    /// The rows of two arrays, or the sum of two scalars of f32.
    pub(super) fn joined(&self, other: &HostArray) -> Result<HostArray> {
        let Some((rows, of_row)) = self.shape.dims.split_first() else {
            return HostArray::from_f32(&[], &[self.to_f32()?[0] + other.to_f32()?[0]]);
        };
        let added = other.shape.dims.first().copied().unwrap_or_default();
        let dims = [&[rows + added], of_row].concat();
        let bytes = [&self.bytes[..], &other.bytes[..]].concat();
        HostArray::from_bytes(self.shape.with_dims(dims), bytes)
    }

    fn from_values<T: NoUninit>(dtype: DType, dims: &[usize], values: &[T]) -> Result<HostArray> {
        HostArray::from_bytes(Shape::new(dtype, dims), bytemuck::cast_slice(values).to_vec())
    }

    fn to_values<T: AnyBitPattern>(&self, dtype: DType) -> Result<Vec<T>> {
        if self.shape.dtype != dtype {
            let name = "host array".to_owned();
            return Err(Error::WrongDType { name, holds: self.shape.dtype, read_as: dtype });
        }
        Ok(self.bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect())
    }
}
