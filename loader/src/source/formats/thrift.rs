//! Numbers of Thrift's compact protocol, in which Parquet files have their headers and footers.

/// A number of seven bits a byte, the lowest ones first; None where the bytes end before it does.
pub(super) fn varint(mut next: impl FnMut() -> Option<u8>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = next()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// A signed number, whose lowest bit is its sign (zigzag).
pub(super) fn number(next: impl FnMut() -> Option<u8>) -> Option<i64> {
    let number = varint(next)?;
    Some((number >> 1) as i64 ^ -((number & 1) as i64))
}
