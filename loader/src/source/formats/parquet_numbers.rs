//! Numbers within the pages of a Parquet file, of which some bytes may stand for any amount: runs of repeated numbers,
//! and differences of no bits. Counts and sums are taken from them before the reader makes room.

use super::thrift;

/// The reader takes other numbers of differences for damage.
const MINIBLOCK_STEP: u64 = 32;
/// The widest difference of two lengths.
const DELTA_BITS_MAX: u8 = 32;

/// Numbers of the encoding RLE: hands each run to `take`, as the number and how often it stands there, until there
/// were `count` of them or the bytes end. None for bytes that are no runs.
pub(super) fn each_run(
    mut bytes: &[u8],
    width: u8,
    count: u64,
    mut take: impl FnMut(u64, u64),
) -> Option<()> {
    let mut left = count;
    while left > 0 && !bytes.is_empty() {
        let head = varint(&mut bytes)?;
        let numbers = (head >> 1).min(left);
        if head & 1 == 0 {
            if head == 0 {
                // Some writers fill pages up with zeros.
                return Some(());
            }
            let (value, rest) = bytes.split_at_checked(usize::from(width).div_ceil(8))?;
            take(value.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)), numbers);
            (bytes, left) = (rest, left - numbers);
            continue;
        }
        let packed = (head >> 1).checked_mul(u64::from(width))?.min(bytes.len() as u64);
        let (packed, rest) = bytes.split_at(packed as usize);
        let numbers = (head >> 1).checked_mul(8)?.min(left);
        each_packed(packed, width, numbers, |number| take(number, 1));
        (bytes, left) = (rest, left - numbers);
    }
    Some(())
}

/// Hands the numbers of `width` bits each to `take`, `count` at most.
pub(super) fn each_packed(bytes: &[u8], width: u8, count: u64, mut take: impl FnMut(u64)) {
    let (mut held, mut bits) = (0u128, 0u8);
    let mut bytes = bytes.iter();
    for _ in 0..count {
        while bits < width {
            let Some(byte) = bytes.next() else { return };
            held |= u128::from(*byte) << bits;
            bits += 8;
        }
        take((held & ((1 << width) - 1)) as u64);
        held >>= width;
        bits -= width;
    }
}

/// The number of lengths that the encoding DELTA_BINARY_PACKED states at its start.
pub(super) fn delta_count(mut bytes: &[u8]) -> Option<u64> {
    Some(DeltaHead::read(&mut bytes)?.count)
}

/// Lengths of the encoding DELTA_BINARY_PACKED, of which there are no more than `count_max`, and the bytes behind them.
pub(super) fn delta_lengths(mut bytes: &[u8], count_max: u64) -> Option<(Vec<u32>, &[u8])> {
    let head = DeltaHead::read(&mut bytes)?;
    if head.count > count_max {
        return None;
    }
    let mut lengths = Vec::new();
    let mut last = head.first as i32;
    if head.count > 0 {
        lengths.push(u32::try_from(last).ok()?);
    }
    while (lengths.len() as u64) < head.count {
        let least = thrift::number(|| byte(&mut bytes))? as i32;
        let (widths, rest) = bytes.split_at_checked(usize::try_from(head.miniblocks).ok()?)?;
        bytes = rest;
        for width in widths {
            let wanted = (head.count - lengths.len() as u64).min(head.each);
            if wanted == 0 {
                // The rest of the widths may be any.
                break;
            }
            if *width > DELTA_BITS_MAX {
                return None;
            }
            let size = head.each.checked_mul(u64::from(*width))? / 8;
            let (packed, rest) = bytes.split_at(size.min(bytes.len() as u64) as usize);
            let before = lengths.len();
            let mut is_length = true;
            each_packed(packed, *width, wanted, |delta| {
                last = last.wrapping_add(least).wrapping_add(delta as i32);
                is_length &= last >= 0;
                lengths.push(last as u32);
            });
            if !is_length || (lengths.len() - before) as u64 != wanted {
                return None;
            }
            bytes = rest;
        }
    }
    Some((lengths, bytes))
}

/// The numbers that precede the blocks of differences.
struct DeltaHead {
    miniblocks: u64,
    /// The differences of each.
    each: u64,
    count: u64,
    first: i64,
}

impl DeltaHead {
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (block, miniblocks, count) = (varint(bytes)?, varint(bytes)?, varint(bytes)?);
        let first = thrift::number(|| byte(bytes))?;
        let each = block.checked_div(miniblocks)?;
        let is_whole = block % miniblocks == 0 && each % MINIBLOCK_STEP == 0 && each > 0;
        is_whole.then_some(Self { miniblocks, each, count, first })
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    thrift::varint(|| byte(bytes))
}

fn byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_handed_on_as_they_are() {
        let runs = |bytes: &[u8], width, count| {
            let mut runs = Vec::new();
            each_run(bytes, width, count, |number, times| runs.push((number, times))).map(|()| runs)
        };
        // Two billions of ones in six bytes.
        let many = [0xfe, 0xff, 0xff, 0xff, 0x0f, 1];
        assert_eq!(runs(&many, 1, u64::MAX), Some(vec![(1, i32::MAX as u64)]));
        assert_eq!(runs(&many, 1, 5), Some(vec![(1, 5)]));
        // Eight numbers of three bits, of which five are wanted; then a run of a wide number.
        let packed = [0x03, 0x88, 0xc6, 0xfa, 0x04, 0x39, 0x05];
        let first = (0..5).map(|number| (number, 1)).collect();
        assert_eq!(runs(&packed[..4], 3, 5), Some(first));
        assert_eq!(runs(&packed[4..], 12, 9), Some(vec![(0x539, 2)]));
        assert_eq!(runs(&[0x02], 8, 1), None, "a run without its number");
        assert_eq!(runs(&[0, 0, 0], 8, 3), Some(Vec::new()), "zeros that fill a page");
        // A run of numbers of no bits.
        assert_eq!(runs(&[0x08], 0, 9), Some(vec![(0, 4)]));
    }

    #[test]
    fn lengths_are_those_that_the_writer_had() {
        // A block of 128 in four miniblocks; five lengths from 7 on, each longer by one; one byte behind them.
        let bytes = [0x80, 0x01, 4, 5, 14, 2, 0, 0, 0, 0, 0xaa];
        assert_eq!(delta_count(&bytes), Some(5));
        assert_eq!(delta_lengths(&bytes, 9), Some((vec![7, 8, 9, 10, 11], &[0xaa][..])));
        assert_eq!(delta_lengths(&bytes, 4), None, "more than there may be");
        // Miniblocks of no differences would never end, and 2^40 lengths in a miniblock take no bits.
        assert_eq!(delta_lengths(&[0, 4, 5, 14, 2, 0, 0, 0, 0], 9), None);
        let endless =
            [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 14];
        assert_eq!(delta_count(&endless), Some(1 << 40));
        assert_eq!(delta_lengths(&endless, 9), None);
        // Lengths below zero are none.
        assert_eq!(delta_lengths(&[0x80, 0x01, 4, 3, 0, 1, 0, 0, 0, 0], 9), None);
    }
}
