//! The sum of squares.

use crate::dispatch::vectorized;
use crate::math::LANES;

/// Elements whose sum stays in the nearest cache until it is complete.
const BLOCK: usize = 2048;

/// The sum of the squares of all elements.
pub fn square_sum(x: &[f32]) -> f32 {
    // A long sum in f32 would lose small elements to what millions before them came to.
    let mut total = 0.0;
    for block in x.chunks(BLOCK) {
        add_squares(block, &mut total);
    }
    total as f32
}

vectorized! {
    fn add_squares(x: &[f32], total: &mut f64) {
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
