//! Host arrays in the types that parameters are stored in.

use half::bf16;
use traind_xla::DType;
use traind_xla::runtime::HostArray;

use crate::error::Result;

/// A float32 array in the type that its parameter is stored in: rounded to bfloat16, or itself.
pub(super) fn stored(array: HostArray, dtype: DType) -> Result<HostArray> {
    if dtype != DType::BF16 {
        return Ok(array);
    }
    let values = array.to_f32()?;
    let bytes = values.into_iter().flat_map(|value| bf16::from_f32(value).to_le_bytes()).collect();
    Ok(HostArray::from_bytes(array.shape().with_dtype(dtype), bytes)?)
}

/// The array in float32.
pub(crate) fn as_f32(array: &HostArray) -> Result<HostArray> {
    if array.shape().dtype != DType::BF16 {
        return Ok(array.clone());
    }
    let words = array.bytes().as_chunks().0.iter();
    let values: Vec<f32> = words.map(|word| bf16::from_le_bytes(*word).to_f32()).collect();
    Ok(HostArray::from_f32(&array.shape().dims, &values)?)
}
