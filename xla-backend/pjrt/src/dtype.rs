//! Element types, and the Rust types that hold them.

use half::{bf16, f16};
use std::fmt;

macro_rules! dtypes {
    ($($(#[$meta:meta])* $name:ident = $raw:literal $c_name:ident $size:literal $text:literal;)*) => {
        /// The element types of whole bytes. Names are StableHLO's.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum DType {
            $(
                #[doc = concat!("StableHLO's `", $text, "`.")]
                $(#[$meta])*
                $name,
            )*
        }

        impl DType {
            /// All types that this version knows.
            pub const ALL: &'static [DType] = &[$(DType::$name,)*];

            /// Bytes of one element, on the host.
            pub const fn size_bytes(self) -> usize {
                match self { $(DType::$name => $size,)* }
            }

            pub(crate) const fn to_raw(self) -> i32 {
                match self { $(DType::$name => $raw,)* }
            }

            pub(crate) const fn from_raw(raw: i32) -> Option<Self> {
                match raw {
                    $($raw => Some(DType::$name),)*
                    _ => None,
                }
            }

            /// The name in StableHLO's `tensor<...>`.
            pub const fn name(self) -> &'static str {
                match self { $(DType::$name => $text,)* }
            }
        }

        #[cfg(test)]
        pub(crate) const BUFFER_TYPES: &[(&str, i32)] = &[
            $((concat!("PJRT_Buffer_Type_", stringify!($c_name)), $raw),)*
        ];
    };
}

dtypes! {
    ///
    /// One byte, 0 or 1.
    Pred = 1 PRED 1 "i1";
    S8 = 2 S8 1 "i8";
    S16 = 3 S16 2 "i16";
    S32 = 4 S32 4 "i32";
    S64 = 5 S64 8 "i64";
    U8 = 6 U8 1 "ui8";
    U16 = 7 U16 2 "ui16";
    U32 = 8 U32 4 "ui32";
    U64 = 9 U64 8 "ui64";
    F16 = 10 F16 2 "f16";
    F32 = 11 F32 4 "f32";
    F64 = 12 F64 8 "f64";
    Bf16 = 13 BF16 2 "bf16";
    C64 = 14 C64 8 "complex<f32>";
    C128 = 15 C128 16 "complex<f64>";
    F8E5M2 = 16 F8E5M2 1 "f8E5M2";
    F8E4M3Fn = 17 F8E4M3FN 1 "f8E4M3FN";
    F8E4M3B11Fnuz = 18 F8E4M3B11FNUZ 1 "f8E4M3B11FNUZ";
    F8E5M2Fnuz = 19 F8E5M2FNUZ 1 "f8E5M2FNUZ";
    F8E4M3Fnuz = 20 F8E4M3FNUZ 1 "f8E4M3FNUZ";
    F8E4M3 = 26 F8E4M3 1 "f8E4M3";
    F8E3M4 = 27 F8E3M4 1 "f8E3M4";
    F8E8M0Fnu = 28 F8E8M0FNU 1 "f8E8M0FNU";
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Element type and dimensions of an array, major to minor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The type of the elements.
    pub dtype: DType,
    /// The dimensions, the outermost first; none for a scalar.
    pub dims: Vec<usize>,
}

impl Shape {
    /// Bytes of the array on the host, where it is dense; `None` for too large a shape.
    pub(crate) fn host_size_bytes(&self) -> Option<usize> {
        // XLA counts dimensions and bytes in i64.
        let fits = |&bytes: &usize| i64::try_from(bytes).is_ok();
        let multiply = |bytes: usize, &dim: &usize| bytes.checked_mul(dim);
        if !self.dims.iter().all(fits) {
            return None;
        }
        let bytes = self.dims.iter().try_fold(self.dtype.size_bytes(), multiply);
        bytes.filter(fits)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for dim in &self.dims {
            write!(f, "{dim}x")?;
        }
        write!(f, "{}>", self.dtype)
    }
}

/// A Rust type whose slices are host data of one [`DType`]. `Pred` has none: its
/// bytes go through the functions that take bytes.
pub trait Element: bytemuck::Pod {
    /// The element type on a device.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident,)*) => {$(
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements! {
    i8 => S8, i16 => S16, i32 => S32, i64 => S64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f16 => F16, bf16 => Bf16, f32 => F32, f64 => F64,
}
