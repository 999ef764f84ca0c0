//! The sum of squares, and sums of rows.

use crate::dispatch::vectorized;
use crate::math::LANES;

/// Elements whose sum stays in the nearest cache until it is complete.
pub(crate) const BLOCK: usize = 2048;

/// The sum of the squares of all elements.
pub fn square_sum(x: &[f32]) -> f32 {
    // A long sum in f32 would lose small elements to what millions before them came to.
    let mut total = 0.0;
    for block in x.chunks(BLOCK) {
        add_squares(block, &mut total);
    }
    total as f32
}

/// The sum of arrays that are as long as `to`, added in their order.
pub fn sum_parts(to: &mut [f32], parts: &[&[f32]]) {
    let Some((first, others)) = parts.split_first() else { return to.fill(0.0) };
    for (number, to) in to.chunks_mut(BLOCK).enumerate() {
        let place = number * BLOCK..number * BLOCK + to.len();
        to.copy_from_slice(&first[place.clone()]);
        others.iter().for_each(|part| add(to, &part[place.clone()]));
    }
}

/// The sum of each column of `x`, whose rows have as many elements as `sums`. Rows are added in their order.
pub fn column_sums(x: &[f32], sums: &mut [f32]) {
    sums.fill(0.0);
    if !sums.is_empty() {
        assert!(x.len().is_multiple_of(sums.len()), "the last row is shorter than the others");
        x.chunks_exact(sums.len()).for_each(|row| add(sums, row));
    }
}

vectorized! {
    /// Adds a row to another one.
    pub(crate) fn add(to: &mut [f32], row: &[f32]) {
        for (to, row) in to.iter_mut().zip(row) {
            *to += row;
        }
    }

    /// Adds the squares of a block to the total.
    pub(crate) fn add_squares(x: &[f32], total: &mut f64) {
        let mut sums = [[0.0f32; LANES]; 2];
        let (rows, rest) = x.as_chunks::<{ 2 * LANES }>();
        for row in rows {
            for (index, sum) in sums.as_flattened_mut().iter_mut().enumerate() {
                *sum = row[index].mul_add(row[index], *sum);
            }
        }
        let rest = rest.iter().map(|x| x * x);
        *total += sums.into_iter().flatten().chain(rest).map(f64::from).sum::<f64>();
    }
}
