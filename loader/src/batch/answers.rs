//! The weights of answers that may lie beyond their batch, as those of rows that another program cut may.

/// The factors by which the starts of a batch's answers that lie within it weigh as much as all of its rows, and its
/// ends too, so that each of the two losses is a mean over them, as in transformers. `rows` has the weight of each row,
/// and whether its start and its end lie within the batch.
pub fn answer_factors(rows: impl IntoIterator<Item = (f32, [bool; 2])>) -> [f32; 2] {
    let (mut all, mut within) = (0.0, [0.0; 2]);
    for (weight, lies_within) in rows {
        all += weight;
        for (sum, lies_within) in within.iter_mut().zip(lies_within) {
            *sum += if lies_within { weight } else { 0.0 };
        }
    }
    within.map(|sum| if sum > 0.0 { all / sum } else { 0.0 })
}

/// The weights of a row's start and end beside the row's own.
pub fn answer_weights(factors: [f32; 2], lies_within: [bool; 2]) -> [f32; 2] {
    let weight = |place: usize| if lies_within[place] { factors[place] } else { 0.0 };
    [weight(0), weight(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_and_ends_within_the_batch_weigh_as_much_as_all_rows() {
        let rows = [(1.0, [true, true]), (1.0, [true, false]), (2.0, [true, true])];
        let factors = answer_factors(rows);
        assert_eq!(factors, [1.0, 4.0 / 3.0]);
        assert_eq!(answer_weights(factors, [true, false]), [1.0, 0.0]);
        assert_eq!(answer_factors([(1.0, [false, true])]), [0.0, 1.0]);
        assert_eq!(answer_factors([]), [0.0; 2]);
    }
}
