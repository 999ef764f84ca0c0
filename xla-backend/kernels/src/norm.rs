//! Layer norm (Ba et al. 2016) and root-mean-square norm (Zhang and Sennrich 2019) of rows, of a
//! row alone or of its sum with another one, which passes through dropout first.
//!
//! R rows, H elements of a row.

use crate::dispatch::vectorized;
use crate::hash::{Dropout, PLACE_STRIDE, bits};
use crate::math::{LANES, sum_lanes};
use crate::scratch::with_scratch;

/// Gradients of weight and bias are sums over blocks of so many rows, then over blocks: in one
/// sum over all rows, rounding errors would grow with their number.
const BLOCK_ROWS: usize = 64;

/// The rows to normalize, and the kind of norm.
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    /// [H]
    pub weight: &'a [f32],
    /// The number that is added to the variance, or to the mean square.
    pub epsilon: f32,
    /// Whether the mean is subtracted: layer norm.
    pub is_centered: bool,
    /// The places that dropout zeroes, where there is dropout.
    pub dropout: Option<DropoutOfRows<'a>>,
}

/// Dropout of rows that lie in blocks of equally many.
#[derive(Clone, Copy, Debug)]
pub struct DropoutOfRows<'a> {
    pub dropout: Dropout,
    /// The two keys of each block, [2, blocks].
    pub keys: &'a [u32],
}

/// The operands of the forward pass, [R, H] each, and the bias [H].
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    pub x: &'a [f32],
    /// The tensor that is added to `x` after dropout.
    pub residual: Option<&'a [f32]>,
    pub bias: Option<&'a [f32]>,
}

/// The results of the forward pass.
#[derive(Debug)]
pub struct Results<'a> {
    /// [R, H]
    pub output: &'a mut [f32],
    /// The mean of each row, 0 where it is not subtracted, then the factor of each: [2, R].
    pub statistics: &'a mut [f32],
    /// The sum that is normalized, [R, H], where there is a residual.
    pub sum: Option<&'a mut [f32]>,
}

/// The operands of the backward pass.
#[derive(Clone, Copy, Debug)]
pub struct Cotangent<'a> {
    /// The rows that were normalized, [R, H].
    pub normalized: &'a [f32],
    pub statistics: &'a [f32],
    /// The cotangent of the output.
    pub cotangent: &'a [f32],
}

/// The results of the backward pass.
#[derive(Debug)]
pub struct Gradients<'a> {
    /// The gradient of the rows that were normalized, [R, H].
    pub normalized: &'a mut [f32],
    /// The gradients of the weight and of the bias, [H] each.
    pub weight: &'a mut [f32],
    pub bias: Option<&'a mut [f32]>,
    /// The gradient of the rows before dropout, where there is dropout.
    pub dropped: Option<&'a mut [f32]>,
}

/// Normalizes each row.
pub fn forward(norm: &Norm<'_>, at: &Operands<'_>, to: Results<'_>) {
    let width = norm.check(at.x.len());
    let rows = at.x.len() / width;
    assert_eq!(to.output.len(), at.x.len());
    assert_eq!(to.statistics.len(), 2 * rows);
    assert!(at.residual.is_none_or(|residual| residual.len() == at.x.len()));
    assert!(at.bias.is_none_or(|bias| bias.len() == width));
    assert_eq!(to.sum.as_ref().map(|sum| sum.len()), at.residual.map(<[f32]>::len));
    let (means, factors) = to.statistics.split_at_mut(rows);
    forward_rows(norm, at, to.output, to.sum, means, factors);
}

/// Gradients of the rows and of the norm's parameters.
pub fn backward(norm: &Norm<'_>, at: &Cotangent<'_>, to: Gradients<'_>) {
    let width = norm.check(at.normalized.len());
    let rows = at.normalized.len() / width;
    let Gradients { normalized, weight, mut bias, mut dropped } = to;
    assert_eq!(at.cotangent.len(), at.normalized.len());
    assert_eq!(at.statistics.len(), 2 * rows);
    assert_eq!(normalized.len(), at.normalized.len());
    assert_eq!(weight.len(), width);
    assert!(bias.as_ref().is_none_or(|bias| bias.len() == width));
    assert_eq!(dropped.as_ref().map(|to| to.len()), norm.dropout.map(|_| normalized.len()));
    weight.fill(0.0);
    if let Some(bias) = &mut bias {
        bias.fill(0.0);
    }
    with_scratch::<2>(width.next_multiple_of(LANES), |[of_weight, of_bias]| {
        for first in (0..rows).step_by(BLOCK_ROWS) {
            let block = Block { first, rows: BLOCK_ROWS.min(rows - first), all: rows };
            let elements = first * width..(first + block.rows) * width;
            let at = Cotangent {
                normalized: &at.normalized[elements.clone()],
                cotangent: &at.cotangent[elements.clone()],
                ..*at
            };
            let dropped = dropped.as_mut().map(|dropped| &mut dropped[elements.clone()]);
            backward_rows(norm, block, &at, &mut normalized[elements], dropped);
            let sums = [&mut of_weight[..width], &mut of_bias[..width]];
            sum_parameters(block, &at, sums, [Some(&mut *weight), bias.as_deref_mut()]);
        }
    });
}

/// Consecutive ones of all rows.
#[derive(Clone, Copy)]
struct Block {
    first: usize,
    rows: usize,
    all: usize,
}

impl Norm<'_> {
    /// Returns the width of a row.
    fn check(&self, elements: usize) -> usize {
        let width = self.weight.len().max(1);
        assert!(elements.is_multiple_of(width), "rows of {width} are no part of {elements}");
        if let Some(DropoutOfRows { keys, .. }) = self.dropout {
            let blocks = keys.len() / 2;
            assert!(keys.len() == 2 * blocks && blocks > 0, "keys come in pairs");
            assert!((elements / width).is_multiple_of(blocks), "blocks have equally many rows");
        }
        width
    }
}

/// The random bits of a row.
#[derive(Clone, Copy)]
struct RowBits {
    /// The number of the row's first place.
    first: u32,
    keys: [u32; 2],
}

impl RowBits {
    #[inline(always)]
    fn at(self, column: usize) -> u32 {
        bits(self.first.wrapping_add(column as u32), self.keys)
    }
}

impl DropoutOfRows<'_> {
    /// The random bits of row `row` of `rows`.
    #[inline(always)]
    fn of_row(&self, row: usize, rows: usize) -> RowBits {
        let blocks = self.keys.len() / 2;
        let rows_of_block = (rows / blocks).max(1);
        let (block, place) = (row / rows_of_block, row % rows_of_block);
        let keys = [self.keys[block], self.keys[blocks + block]];
        RowBits { first: (place as u32).wrapping_mul(PLACE_STRIDE), keys }
    }
}

/// The sum of `term` of all elements, in a fixed order.
#[inline(always)]
fn sum_of(x: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] += term(chunk[lane]);
        }
    }
    let rest: f32 = rest.iter().map(|&x| term(x)).sum();
    sum_lanes(lanes) + rest
}

/// `to = residual + x` after dropout.
#[inline(always)]
fn add_row(to: &mut [f32], x: &[f32], residual: &[f32], dropout: Option<(Dropout, RowBits)>) {
    let pairs = to.iter_mut().zip(x.iter().zip(residual));
    match dropout {
        None => pairs.for_each(|(to, (x, residual))| *to = x + residual),
        Some((dropout, bits)) => {
            for (column, (to, (x, residual))) in pairs.enumerate() {
                let factor = dropout.factor(bits.at(column));
                // What is dropped is 0, be it infinite.
                *to = if factor == 0.0 { *residual } else { x.mul_add(factor, *residual) };
            }
        }
    }
}

vectorized! {
    fn forward_rows(
        norm: &Norm<'_>,
        at: &Operands<'_>,
        output: &mut [f32],
        sum: Option<&mut [f32]>,
        means: &mut [f32],
        factors: &mut [f32],
    ) {
        let (width, rows, mut sum) = (norm.weight.len(), means.len(), sum);
        let share = 1.0 / width as f32;
        for row in 0..rows {
            let of_row = row * width..(row + 1) * width;
            let mut x = &at.x[of_row.clone()];
            if let (Some(sum), Some(residual)) = (&mut sum, at.residual) {
                let sum = &mut sum[of_row.clone()];
                let dropout = norm.dropout.map(|it| (it.dropout, it.of_row(row, rows)));
                add_row(sum, x, &residual[of_row.clone()], dropout);
                x = sum;
            }
            let mean = if norm.is_centered { sum_of(x, |x| x) * share } else { 0.0 };
            let squares = sum_of(x, |x| (x - mean) * (x - mean));
            let factor = 1.0 / squares.mul_add(share, norm.epsilon).sqrt();
            (means[row], factors[row]) = (mean, factor);
            let to = output[of_row].iter_mut().zip(x).zip(norm.weight);
            match at.bias {
                Some(bias) => {
                    for (((to, x), weight), bias) in to.zip(bias) {
                        *to = ((x - mean) * factor).mul_add(*weight, *bias);
                    }
                }
                None => to.for_each(|((to, x), weight)| *to = (x - mean) * factor * weight),
            }
        }
    }

    /// The gradients of a block of rows, before and after dropout.
    fn backward_rows(
        norm: &Norm<'_>,
        block: Block,
        at: &Cotangent<'_>,
        to: &mut [f32],
        dropped: Option<&mut [f32]>,
    ) {
        let (width, mut dropped) = (norm.weight.len(), dropped);
        let share = 1.0 / width as f32;
        for row in 0..block.rows {
            let of_row = row * width..(row + 1) * width;
            let (x, cotangent) = (&at.normalized[of_row.clone()], &at.cotangent[of_row.clone()]);
            let [mean, factor] = at.statistics_of(block.first + row, block.all);
            let [level, along] = slopes(x, cotangent, norm.weight, mean);
            let level = if norm.is_centered { level * share } else { 0.0 };
            // By how much the result changes along the normalized row.
            let along = along * factor * factor * share;
            let to = &mut to[of_row.clone()];
            let inputs = x.iter().zip(cotangent).zip(norm.weight);
            for (to, ((x, cotangent), weight)) in to.iter_mut().zip(inputs) {
                let slope = cotangent * weight - level;
                *to = (x - mean).mul_add(-along, slope) * factor;
            }
            if let (Some(dropped), Some(dropout)) = (&mut dropped, norm.dropout) {
                let bits = dropout.of_row(block.first + row, block.all);
                let pairs = dropped[of_row].iter_mut().zip(to.iter()).enumerate();
                for (column, (dropped, to)) in pairs {
                    let factor = dropout.dropout.factor(bits.at(column));
                    *dropped = if factor == 0.0 { 0.0 } else { to * factor };
                }
            }
        }
    }

    /// Adds the gradients of weight and bias of a block of rows to `totals`, by way of `sums`.
    fn sum_parameters(
        block: Block,
        at: &Cotangent<'_>,
        sums: [&mut [f32]; 2],
        totals: [Option<&mut [f32]>; 2],
    ) {
        let [of_weight, of_bias] = sums;
        of_weight.fill(0.0);
        of_bias.fill(0.0);
        let width = of_weight.len();
        for row in 0..block.rows {
            let of_row = row * width..(row + 1) * width;
            let [mean, factor] = at.statistics_of(block.first + row, block.all);
            let pairs = at.normalized[of_row.clone()].iter().zip(&at.cotangent[of_row]);
            let sums = of_weight.iter_mut().zip(of_bias.iter_mut());
            for ((of_weight, of_bias), (x, cotangent)) in sums.zip(pairs) {
                *of_weight = ((x - mean) * factor).mul_add(*cotangent, *of_weight);
                *of_bias += cotangent;
            }
        }
        for (total, sum) in totals.into_iter().zip([of_weight, of_bias]) {
            let pairs = total.into_iter().flatten().zip(sum);
            pairs.for_each(|(total, sum)| *total += *sum);
        }
    }
}

impl Cotangent<'_> {
    /// Mean and factor of row `row` of `rows`.
    #[inline(always)]
    fn statistics_of(&self, row: usize, rows: usize) -> [f32; 2] {
        [self.statistics[row], self.statistics[rows + row]]
    }
}

/// The sums of the cotangents of the normalized row, and of their products with the row's distance
/// from its mean.
#[inline(always)]
fn slopes(x: &[f32], cotangent: &[f32], weight: &[f32], mean: f32) -> [f32; 2] {
    let (mut level, mut along) = ([0f32; LANES], [0f32; LANES]);
    let (x, x_rest) = x.as_chunks::<LANES>();
    let (cotangent, cotangent_rest) = cotangent.as_chunks::<LANES>();
    let (weight, weight_rest) = weight.as_chunks::<LANES>();
    for ((x, cotangent), weight) in x.iter().zip(cotangent).zip(weight) {
        for lane in 0..LANES {
            let slope = cotangent[lane] * weight[lane];
            level[lane] += slope;
            along[lane] = slope.mul_add(x[lane] - mean, along[lane]);
        }
    }
    let mut sums = [sum_lanes(level), sum_lanes(along)];
    for ((x, cotangent), weight) in x_rest.iter().zip(cotangent_rest).zip(weight_rest) {
        let slope = cotangent * weight;
        sums[0] += slope;
        sums[1] = slope.mul_add(x - mean, sums[1]);
    }
    sums
}
