//! The places of a core's tokens without padding: two arrays by which a program moves states between padded rows and
//! packed ones.

use std::ops::Range;

use super::{ArrayValues, BatchArray, BatchAxis, BatchSizes};
use crate::error::{Error, Result};

/// The padded place that each packed token comes from, s32[B, Q]; B S behind the last token.
const PACKED_TOKENS: &str = "packed_tokens";
/// The packed token that stands at each padded place, s32[B, S]; B Q where that is padding.
const PADDED_TOKENS: &str = "padded_tokens";

/// The arrays for rows whose tokens stand at `spans`; none where the sizes leave no padding out. Fails where the rows
/// have more tokens than the sizes allow.
pub(crate) fn packed_arrays(sizes: &BatchSizes, spans: &[Range<usize>]) -> Result<Vec<BatchArray>> {
    let (rows, positions) = (sizes.rows(), sizes.get(BatchAxis::Positions));
    let packed = sizes.get(BatchAxis::PackedPositions);
    if packed == 0 {
        return Ok(Vec::new());
    }
    let (places, slots) = (rows * positions, rows * packed);
    let mut packed_tokens = vec![places as i32; slots];
    let mut padded_tokens = vec![slots as i32; places];
    let row_places = |(row, span): (usize, &Range<usize>)| {
        let first = row * positions;
        first + span.start..first + span.end
    };
    for (token, place) in spans.iter().enumerate().flat_map(row_places).enumerate() {
        let slot = packed_tokens.get_mut(token).ok_or_else(|| too_many(slots))?;
        *slot = place as i32;
        padded_tokens[place] = token as i32;
    }
    let array = |name, width, values| BatchArray {
        name,
        dims: vec![rows, width],
        values: ArrayValues::S32(values),
    };
    Ok(vec![
        array(PACKED_TOKENS, packed, packed_tokens),
        array(PADDED_TOKENS, positions, padded_tokens),
    ])
}

fn too_many(slots: usize) -> Error {
    let message = format!("leaves {slots} places for rows with more tokens");
    Error::BadOption { field: "length_ladder", message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(packed: u32) -> BatchSizes {
        let sizes = BatchSizes::of_rows(3).with(BatchAxis::Positions, 4);
        sizes.with(BatchAxis::PackedPositions, packed)
    }

    #[test]
    fn tokens_stand_one_behind_the_other_without_padding() {
        // The second row is padded on the left, and the third slot is empty.
        let arrays = packed_arrays(&sizes(2), &[0..3, 2..4, 0..0]).unwrap();
        let [packed, padded] = arrays.as_slice() else { panic!("{arrays:?}") };
        assert_eq!((packed.name, &packed.dims[..]), (PACKED_TOKENS, &[3, 2][..]));
        assert_eq!(packed.values, ArrayValues::S32(vec![0, 1, 2, 6, 7, 12]));
        assert_eq!((padded.name, &padded.dims[..]), (PADDED_TOKENS, &[3, 4][..]));
        let expect = vec![0, 1, 2, 6, 6, 6, 3, 4, 6, 6, 6, 6];
        assert_eq!(padded.values, ArrayValues::S32(expect));
    }

    #[test]
    fn sizes_that_leave_nothing_out_need_no_places() {
        assert_eq!(packed_arrays(&sizes(0), &[0..3, 2..4, 0..0]).unwrap(), []);
    }

    #[test]
    fn more_tokens_than_slots_are_refused() {
        let refused = packed_arrays(&sizes(1), &[0..3, 2..4, 0..0]).unwrap_err();
        assert_eq!(refused.to_string(), "length_ladder: leaves 3 places for rows with more tokens");
    }
}
