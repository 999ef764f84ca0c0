//! Element types, under XLA's names.

use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum DType {
    /// A truth value, one byte each.
    Pred,
    /// An unsigned integer of 8 bits, as pixels are.
    U8,
    /// An unsigned integer of 32 bits, of which random numbers are made.
    U32,
    /// A signed integer of 32 bits, as token ids are.
    S32,
    /// A signed integer of 64 bits.
    S64,
    /// IEEE's half precision.
    F16,
    /// The upper half of an [`F32`](DType::F32).
    BF16,
    /// IEEE's single precision.
    F32,
    /// Used by gradient checks; Neuron has none.
    F64,
}

impl DType {
    /// All types.
    pub const ALL: [DType; 9] = [
        DType::Pred,
        DType::U8,
        DType::U32,
        DType::S32,
        DType::S64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];

    /// Returns whether elements are floating-point numbers.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// Returns whether elements are integers; truth values are none.
    pub fn is_integer(self) -> bool {
        matches!(self, DType::U8 | DType::U32 | DType::S32 | DType::S64)
    }

    /// The dtype in which sums of this one are taken.
    pub fn accumulator(self) -> DType {
        match self {
            DType::F16 | DType::BF16 => DType::F32,
            _ => self,
        }
    }

    /// The number that every other one is at least, as a reduction starts from.
    pub fn lowest(self) -> f64 {
        match self {
            DType::S32 => f64::from(i32::MIN),
            DType::S64 => i64::MIN as f64,
            _ if self.is_float() => f64::NEG_INFINITY,
            _ => 0.0,
        }
    }

    /// The number that every other one is at most.
    pub fn highest(self) -> f64 {
        match self {
            DType::Pred => 1.0,
            DType::U8 => f64::from(u8::MAX),
            DType::U32 => f64::from(u32::MAX),
            DType::S32 => f64::from(i32::MAX),
            DType::S64 => i64::MAX as f64,
            _ => f64::INFINITY,
        }
    }

    /// Bytes of one element, on the host.
    pub fn size_bytes(self) -> usize {
        match self {
            DType::Pred | DType::U8 => 1,
            DType::F16 | DType::BF16 => 2,
            DType::U32 | DType::S32 | DType::F32 => 4,
            DType::S64 | DType::F64 => 8,
        }
    }

    /// XLA's short name, as printed by our own printer.
    pub fn name(self) -> &'static str {
        match self {
            DType::Pred => "pred",
            DType::U8 => "u8",
            DType::U32 => "u32",
            DType::S32 => "s32",
            DType::S64 => "s64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
