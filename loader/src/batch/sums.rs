//! Sums over the rows of a core's batch, which stand beside each of its rows.

/// The terms of one row in these sums: its weight, and its weight times the tokens that have a label and times all
/// tokens that are attended to.
pub fn batch_terms(weight: f32, labels: &[i32], attention: &[i32]) -> [f32; 3] {
    let labelled = labels.iter().filter(|label| **label >= 0).count();
    let tokens = attention.iter().filter(|attended| **attended > 0).count();
    [1.0, labelled as f32, tokens as f32].map(|count| count * weight)
}

/// The sums of the terms of a core's rows.
pub fn batch_sums(rows: impl IntoIterator<Item = [f32; 3]>) -> [f32; 3] {
    let mut sums = [0.0; 3];
    for terms in rows {
        sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_count_by_their_weights() {
        let rows = [batch_terms(1.0, &[-100, 5, 0], &[1, 1, 1]), batch_terms(0.5, &[7], &[1, 0])];
        assert_eq!(rows, [[1.0, 2.0, 3.0], [0.5, 0.5, 0.5]]);
        assert_eq!(batch_sums(rows), [1.5, 2.5, 3.5]);
        assert_eq!(batch_sums([]), [0.0; 3]);
    }
}
