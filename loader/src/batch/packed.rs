//! Some of the tokens of a core, one behind the other: those that are no padding, or those whose predictions are
//! computed. Two arrays each say where they stand, by which a program moves states between padded rows and these
//! tokens.

use std::ops::Range;

use super::{ArrayValues, BatchArray, BatchAxis, BatchSizes, RowData};
use crate::error::{Error, Result};

/// The padded place that each packed token comes from, s32[B, Q], with B S behind the last token; and the packed token
/// that stands at each padded place, s32[B, S], with B Q where that is padding.
const PACKED: [&str; 2] = ["packed_tokens", "padded_tokens"];
/// The places of predicted tokens, s32[B, M], and the predicted token at each place, s32[B, S].
const PREDICTED: [&str; 2] = ["predicted_tokens", "predicted_slots"];

/// The arrays for rows whose tokens stand at `spans`; none where the sizes leave no padding out. Programs take
/// `part_rows` rows at a time, so that tokens have their places among those. Fails where the rows of a part have more
/// tokens than the sizes allow.
pub(crate) fn packed_arrays(
    sizes: &BatchSizes,
    spans: &[Range<usize>],
    part_rows: usize,
) -> Result<Vec<BatchArray>> {
    let packed = sizes.get(BatchAxis::PackedPositions);
    if packed == 0 {
        return Ok(Vec::new());
    }
    let positions = sizes.get(BatchAxis::Positions);
    let row_places = |(row, span): (usize, &Range<usize>)| {
        let first = row * positions;
        first + span.start..first + span.end
    };
    let of_part = sizes.with(BatchAxis::Rows, part_rows as u32);
    let mut all = [Vec::new(), Vec::new()];
    for spans in spans.chunks(part_rows) {
        let places = spans.iter().enumerate().flat_map(row_places);
        let part = placed(&of_part, packed, places).ok_or_else(|| too_many(part_rows * packed))?;
        all.iter_mut().zip(part).for_each(|(all, part)| all.extend(part));
    }
    Ok(arrays(PACKED, sizes, packed, all))
}

/// The token whose target a token predicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PredictedTarget {
    #[default]
    Own,
    Next,
}

/// The arrays for the tokens of rows that predict a target; none where the sizes have all tokens predicted. `None`
/// where the rows have more of them than the sizes allow.
pub(crate) fn predicted_arrays(
    sizes: &BatchSizes,
    rows: &[Option<RowData<'_>>],
    target: PredictedTarget,
) -> Option<Vec<BatchArray>> {
    let predicted = sizes.get(BatchAxis::PredictedPositions);
    if predicted == 0 {
        return Some(Vec::new());
    }
    let positions = sizes.get(BatchAxis::Positions);
    let before = match target {
        PredictedTarget::Own => 0,
        PredictedTarget::Next => 1,
    };
    let places = rows.iter().enumerate().flat_map(|(row, data)| {
        let predicting = data.iter().flat_map(|data| {
            let targets = data.token_targets.iter().flatten().skip(before).enumerate();
            targets.filter(|(_, target)| **target >= 0).map(|(token, _)| data.span.start + token)
        });
        predicting.map(move |place| row * positions + place)
    });
    Some(arrays(PREDICTED, sizes, predicted, placed(sizes, predicted, places)?))
}

/// The values of both arrays for tokens at `places`, in ascending order, which share `width` slots a row. `None` where
/// they are more.
fn placed(
    sizes: &BatchSizes,
    width: usize,
    places: impl Iterator<Item = usize>,
) -> Option<[Vec<i32>; 2]> {
    let (rows, positions) = (sizes.rows(), sizes.get(BatchAxis::Positions));
    let (all, slots) = (rows * positions, rows * width);
    let (mut tokens, mut slot_of_place) = (vec![all as i32; slots], vec![slots as i32; all]);
    for (token, place) in places.enumerate() {
        *tokens.get_mut(token)? = place as i32;
        slot_of_place[place] = token as i32;
    }
    Some([tokens, slot_of_place])
}

/// Arrays of [`placed`] values, the first with `width` for each row.
fn arrays(
    names: [&'static str; 2],
    sizes: &BatchSizes,
    width: usize,
    values: [Vec<i32>; 2],
) -> Vec<BatchArray> {
    let widths = [width, sizes.get(BatchAxis::Positions)];
    let array = |((name, width), values)| BatchArray {
        name,
        dims: vec![sizes.rows(), width],
        values: ArrayValues::S32(values),
    };
    names.into_iter().zip(widths).zip(values).map(array).collect()
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
        let arrays = packed_arrays(&sizes(2), &[0..3, 2..4, 0..0], 3).unwrap();
        let [packed, padded] = arrays.as_slice() else { panic!("{arrays:?}") };
        assert_eq!((packed.name, &packed.dims[..]), (PACKED[0], &[3, 2][..]));
        assert_eq!(packed.values, ArrayValues::S32(vec![0, 1, 2, 6, 7, 12]));
        assert_eq!((padded.name, &padded.dims[..]), (PACKED[1], &[3, 4][..]));
        let expect = vec![0, 1, 2, 6, 6, 6, 3, 4, 6, 6, 6, 6];
        assert_eq!(padded.values, ArrayValues::S32(expect));
    }

    #[test]
    fn sizes_that_leave_nothing_out_need_no_places() {
        assert_eq!(packed_arrays(&sizes(0), &[0..3, 2..4, 0..0], 3).unwrap(), []);
    }

    #[test]
    fn more_tokens_than_slots_are_refused() {
        let refused = packed_arrays(&sizes(1), &[0..3, 2..4, 0..0], 3).unwrap_err();
        assert_eq!(refused.to_string(), "length_ladder: leaves 3 places for rows with more tokens");
        // Enough for all rows together, but not for the first one.
        let refused = packed_arrays(&sizes(2), &[0..3, 2..4, 0..0], 1).unwrap_err();
        assert_eq!(refused.to_string(), "length_ladder: leaves 2 places for rows with more tokens");
    }

    /// Each part of a batch has the arrays that it would have by itself.
    #[test]
    fn tokens_of_parts_have_their_places_within_them() {
        let sizes = |rows| sizes(3).with(BatchAxis::Rows, rows);
        let spans = [0..3, 2..4, 0..1, 0..4];
        let whole = packed_arrays(&sizes(4), &spans, 2).unwrap();
        let parts: Vec<_> =
            spans.chunks(2).map(|spans| packed_arrays(&sizes(2), spans, 2).unwrap()).collect();
        for (place, array) in whole.iter().enumerate() {
            let values = |array: &BatchArray| match &array.values {
                ArrayValues::S32(values) => values.clone(),
                other => panic!("{other:?}"),
            };
            let of_parts = parts.iter().flat_map(|arrays| values(&arrays[place]));
            assert_eq!(values(array), of_parts.collect::<Vec<_>>());
            assert_eq!(array.dims[0], 4);
        }
    }
}
