//! An array in host memory: what is uploaded to a core or read back from one.

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

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The elements, little-endian and row-major.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

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

    /// The elements, row-major; refuses an array of another dtype.
    pub fn to_u32(&self) -> Result<Vec<u32>> {
        self.to_values(DType::U32)
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
