//! Attributes of a kernel's call, as MLIR writes their values.

/// Writes a number as its bits, since MLIR reads no `1e-5` without a point.
pub(crate) fn number(value: f64) -> String {
    format!("0x{:016X} : f64", value.to_bits())
}

pub(crate) fn integer(value: usize) -> String {
    format!("{value} : i64")
}

pub(crate) fn flag(is_set: bool) -> String {
    integer(usize::from(is_set))
}
