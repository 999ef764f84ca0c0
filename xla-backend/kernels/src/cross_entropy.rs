//! Cross entropy of logits with labels, forward and backward, without probabilities in memory.
//!
//! N rows, C classes.

use crate::dispatch::vectorized;
use crate::math::{LANES, exp, largest_of, sum_lanes};

/// Exponentials are summed over so many classes at a time: in one float32 sum over a vocabulary,
/// small ones are lost.
const BLOCK: usize = 256 * LANES;

/// Statistics that the backward pass needs of the forward pass: the largest logit of each row, then the sum
/// of exponentials of what the others are below it, [2, N].
pub fn statistics_len(rows: usize) -> usize {
    2 * rows
}

/// The loss of each row of `logits` [N, C], and [`statistics_len`] `statistics`. A row whose label is
/// no class has loss 0, and is not read.
pub fn forward(logits: &[f32], labels: &[i32], losses: &mut [f32], statistics: &mut [f32]) {
    let rows = labels.len();
    assert_eq!(losses.len(), rows);
    assert_eq!(statistics.len(), statistics_len(rows));
    let (largest, sums) = statistics.split_at_mut(rows);
    for (row, logits) in rows_of(logits, rows) {
        (losses[row], largest[row], sums[row]) = (0.0, 0.0, 1.0);
        if let Some(label) = class(labels[row], logits) {
            let mut sum = 0.0;
            measure(logits, &mut largest[row], &mut sum);
            sums[row] = sum as f32;
            losses[row] = (sum.ln() - f64::from(logits[label] - largest[row])) as f32;
        }
    }
}

/// Turns logits into their gradients, in place, given the cotangent of each row's loss.
pub fn backward(logits: &mut [f32], labels: &[i32], statistics: &[f32], cotangent: &[f32]) {
    let rows = labels.len();
    assert_eq!(cotangent.len(), rows);
    assert_eq!(statistics.len(), statistics_len(rows));
    let (largest, sums) = statistics.split_at(rows);
    let classes = logits.len() / rows.max(1);
    for (row, logits) in logits.chunks_exact_mut(classes.max(1)).enumerate() {
        match class(labels[row], logits) {
            Some(label) => {
                weigh(logits, largest[row], cotangent[row] / sums[row]);
                logits[label] -= cotangent[row];
            }
            None => logits.fill(0.0),
        }
    }
}

fn rows_of(logits: &[f32], rows: usize) -> impl Iterator<Item = (usize, &[f32])> {
    let classes = logits.len() / rows.max(1);
    assert_eq!(logits.len(), rows * classes);
    (0..rows).map(move |row| (row, &logits[row * classes..(row + 1) * classes]))
}

/// The label, if it is one of as many classes as there are logits.
fn class(label: i32, logits: &[f32]) -> Option<usize> {
    usize::try_from(label).ok().filter(|&label| label < logits.len())
}

vectorized! {
    /// The largest logit, and the sum of exponentials of what all are below it.
    fn measure(logits: &[f32], largest: &mut f32, sum: &mut f64) {
        let most = largest_of(logits);
        *largest = most;
        *sum = 0.0;
        for block in logits.chunks(BLOCK) {
            let mut lanes = [0f32; LANES];
            let (chunks, rest) = block.as_chunks::<LANES>();
            for chunk in chunks {
                for lane in 0..LANES {
                    lanes[lane] += exp(chunk[lane] - most);
                }
            }
            let rest: f32 = rest.iter().map(|logit| exp(logit - most)).sum();
            *sum += f64::from(sum_lanes(lanes) + rest);
        }
    }

    /// Turns logits into exponentials below the largest, times `factor`, in place.
    fn weigh(logits: &mut [f32], largest: f32, factor: f32) {
        for logit in logits {
            *logit = exp(*logit - largest) * factor;
        }
    }
}
