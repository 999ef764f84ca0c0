//! Types as StableHLO text has them.

use crate::dtype::DType;
use crate::shape::Shape;

impl DType {
    /// MLIR's spelling, as StableHLO text wants it.
    pub fn mlir(self) -> &'static str {
        match self {
            DType::Pred => "i1",
            DType::U8 => "ui8",
            DType::U32 => "ui32",
            DType::S32 => "i32",
            DType::S64 => "i64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }
}

impl Shape {
    /// The type in StableHLO text, such as `tensor<2x3xf32>`.
    pub fn mlir(&self) -> String {
        let mut text = String::from("tensor<");
        for dim in &self.dims {
            text.push_str(&dim.to_string());
            text.push('x');
        }
        text.push_str(self.dtype.mlir());
        text.push('>');
        text
    }
}
