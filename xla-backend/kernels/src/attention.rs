//! Multi-head attention, forward and backward, a head and a block of queries at a time:
//! scores live in scratch memory that stays in the cache, and nothing of S × S is kept.
//!
//! B rows, S positions, N heads, D head size, H = N D.

use crate::dispatch::vectorized;
use crate::hash::{Dropout, PLACE_STRIDE, bits};
use crate::math::{LANES, exp, largest_of, sum_lanes};
use crate::matrix::{Matrix, MatrixMut, multiply};
use crate::scratch::with_scratch;

/// The scores of a block of queries take at most about so many floats: half of a small
/// level-2 cache, of which the backward pass has two such blocks.
const BLOCK_ELEMENTS: usize = 1 << 15;
/// Fewer queries than this make a slow product.
const BLOCK_ROWS_MIN: usize = 16;

#[derive(Clone, Copy, Debug)]
pub struct Dims {
    pub rows: usize,
    pub positions: usize,
    pub heads: usize,
    pub head_size: usize,
    /// 1 where all queries of a row share the mask, else S.
    pub mask_queries: usize,
}

/// Operands of both passes. Queries, keys and values are [B S, H], the mask that is added to
/// scores [B, 1 or S, S].
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    pub dims: Dims,
    pub query: &'a [f32],
    pub key: &'a [f32],
    pub value: &'a [f32],
    pub mask: &'a [f32],
    /// Multiplies scores before the mask is added.
    pub scale: f32,
    /// Dropout of the shares, and the two keys of each head, [2, B, N].
    pub dropout: Option<(Dropout, &'a [u32])>,
}

/// What the backward pass needs of the forward pass: per query the largest score and the
/// sum of exponentials of what the others are below it, [B, N, 2, S].
pub fn statistics_len(dims: &Dims) -> usize {
    dims.rows * dims.heads * 2 * dims.positions
}

/// `output` [B S, H] and [`statistics_len`] `statistics`.
pub fn forward(operands: &Operands<'_>, output: &mut [f32], statistics: &mut [f32]) {
    let dims = operands.check();
    assert_eq!(output.len(), operands.query.len());
    assert_eq!(statistics.len(), statistics_len(&dims));
    let (columns, block_rows) = (dims.columns(), dims.block_rows());
    with_scratch::<1>(block_rows * columns, |[scores]| {
        for head in dims.heads() {
            let statistics = &mut statistics[head.statistics()];
            let (largest, sums) = statistics.split_at_mut(dims.positions);
            for first in (0..dims.positions).step_by(block_rows) {
                let block = Block { head, first, rows: block_rows.min(dims.positions - first) };
                let scores = &mut scores[..block.rows * columns];
                operands.scores(&block, scores);
                let block_of = first..first + block.rows;
                shares(
                    &operands.row_arguments(&block),
                    scores,
                    &mut largest[block_of.clone()],
                    &mut sums[block_of],
                );
                let shares = Matrix::new(scores, [block.rows, dims.positions], columns);
                let to = &mut output[block.offset()..];
                let to = MatrixMut::new(to, [block.rows, dims.head_size], dims.hidden());
                multiply(to, shares, head.all(operands.value), false);
            }
        }
    });
}

/// What the backward pass reads besides the operands.
#[derive(Clone, Copy, Debug)]
pub struct Cotangent<'a> {
    pub output: &'a [f32],
    pub statistics: &'a [f32],
    /// Of the output.
    pub cotangent: &'a [f32],
}

/// Gradients of queries, keys and values, each [B S, H].
pub fn backward(operands: &Operands<'_>, at: &Cotangent<'_>, gradients: [&mut [f32]; 3]) {
    let dims = operands.check();
    let [to_query, to_key, to_value] = gradients;
    for len in [at.output.len(), at.cotangent.len(), to_query.len(), to_key.len(), to_value.len()] {
        assert_eq!(len, operands.query.len());
    }
    assert_eq!(at.statistics.len(), statistics_len(&dims));
    let (columns, block_rows, hidden) = (dims.columns(), dims.block_rows(), dims.hidden());
    let head_dims = [dims.positions, dims.head_size];
    with_scratch::<2>(block_rows * columns, |[scores, slopes]| {
        for head in dims.heads() {
            let (largest, sums) = at.statistics[head.statistics()].split_at(dims.positions);
            for first in (0..dims.positions).step_by(block_rows) {
                let block = Block { head, first, rows: block_rows.min(dims.positions - first) };
                let size = block.rows * columns;
                let (scores, slopes) = (&mut scores[..size], &mut slopes[..size]);
                operands.scores(&block, scores);
                let cotangent = block.queries(at.cotangent);
                let to = MatrixMut::new(slopes, [block.rows, dims.positions], columns);
                multiply(to, cotangent, head.all(operands.value).transposed(), false);
                let rows = first..first + block.rows;
                let pass = BackwardRows {
                    largest: &largest[rows.clone()],
                    sums: &sums[rows],
                    output: &at.output[block.offset()..],
                    cotangent: &at.cotangent[block.offset()..],
                };
                score_slopes(&operands.row_arguments(&block), &pass, scores, slopes);
                let shares = Matrix::new(scores, [block.rows, dims.positions], columns);
                let slopes = Matrix::new(slopes, [block.rows, dims.positions], columns);
                let later = first > 0;
                let to = MatrixMut::new(&mut to_value[head.offset()..], head_dims, hidden);
                multiply(to, shares.transposed(), cotangent, later);
                let to = MatrixMut::new(&mut to_key[head.offset()..], head_dims, hidden);
                multiply(to, slopes.transposed(), block.queries(operands.query), later);
                let to = &mut to_query[block.offset()..];
                let to = MatrixMut::new(to, [block.rows, dims.head_size], hidden);
                multiply(to, slopes, head.all(operands.key), false);
            }
        }
    });
}

impl Dims {
    fn hidden(&self) -> usize {
        self.heads * self.head_size
    }

    /// Of a row of scores in scratch memory.
    fn columns(&self) -> usize {
        self.positions.next_multiple_of(LANES)
    }

    fn block_rows(&self) -> usize {
        let rows = BLOCK_ELEMENTS / self.columns().max(1);
        // Blocks of one size: 96 positions are two of 48, not one of 64 and one of 32.
        let blocks = self.positions.div_ceil(rows.max(BLOCK_ROWS_MIN)).max(1);
        self.positions.div_ceil(blocks).max(1)
    }

    fn heads(self) -> impl Iterator<Item = Head> {
        let all = (0..self.rows).flat_map(move |row| (0..self.heads).map(move |head| (row, head)));
        all.map(move |(row, head)| Head { dims: self, row, head })
    }
}

/// One head of one row.
#[derive(Clone, Copy)]
struct Head {
    dims: Dims,
    row: usize,
    head: usize,
}

impl Head {
    /// Of its first element in [B S, H].
    fn offset(&self) -> usize {
        self.row * self.dims.positions * self.dims.hidden() + self.head * self.dims.head_size
    }

    fn index(&self) -> usize {
        self.row * self.dims.heads + self.head
    }

    fn statistics(&self) -> std::ops::Range<usize> {
        let len = 2 * self.dims.positions;
        self.index() * len..(self.index() + 1) * len
    }

    /// Its part of [B S, H], all positions.
    fn all<'a>(&self, of: &'a [f32]) -> Matrix<'a> {
        let dims = [self.dims.positions, self.dims.head_size];
        Matrix::new(&of[self.offset()..], dims, self.dims.hidden())
    }
}

/// Consecutive queries of one head.
struct Block {
    head: Head,
    first: usize,
    rows: usize,
}

impl Block {
    fn offset(&self) -> usize {
        self.head.offset() + self.first * self.head.dims.hidden()
    }

    fn queries<'a>(&self, of: &'a [f32]) -> Matrix<'a> {
        let dims = self.head.dims;
        Matrix::new(&of[self.offset()..], [self.rows, dims.head_size], dims.hidden())
    }
}

/// What the passes over rows of scores need.
struct Rows<'a> {
    dims: Dims,
    columns: usize,
    scale: f32,
    /// Of the block's first query, and the distance to the next one's.
    mask: &'a [f32],
    mask_stride: usize,
    dropout: Option<(Dropout, [u32; 2])>,
    first: u32,
}

struct BackwardRows<'a> {
    largest: &'a [f32],
    sums: &'a [f32],
    output: &'a [f32],
    cotangent: &'a [f32],
}

impl<'a> Operands<'a> {
    fn check(&self) -> Dims {
        let dims = self.dims;
        let elements = dims.rows * dims.positions * dims.hidden();
        for len in [self.query.len(), self.key.len(), self.value.len()] {
            assert_eq!(len, elements);
        }
        assert!(dims.mask_queries == 1 || dims.mask_queries == dims.positions);
        assert_eq!(self.mask.len(), dims.rows * dims.mask_queries * dims.positions);
        if let Some((_, keys)) = self.dropout {
            assert_eq!(keys.len(), 2 * dims.rows * dims.heads);
        }
        dims
    }

    /// Products of a block's queries with all keys.
    fn scores(&self, block: &Block, to: &mut [f32]) {
        let dims = self.dims;
        let to = MatrixMut::new(to, [block.rows, dims.positions], dims.columns());
        multiply(to, block.queries(self.query), block.head.all(self.key).transposed(), false);
    }

    fn row_arguments(&self, block: &Block) -> Rows<'a> {
        let (dims, head) = (self.dims, &block.head);
        let mask = &self.mask[head.row * dims.mask_queries * dims.positions..];
        let shared = dims.mask_queries == 1;
        Rows {
            dims,
            columns: dims.columns(),
            scale: self.scale,
            mask: if shared { mask } else { &mask[block.first * dims.positions..] },
            mask_stride: if shared { 0 } else { dims.positions },
            dropout: self.dropout.map(|(dropout, keys)| {
                let second = dims.rows * dims.heads + head.index();
                (dropout, [keys[head.index()], keys[second]])
            }),
            first: block.first as u32,
        }
    }
}

/// Scales scores, adds the mask, and fills up the row with what counts nothing.
#[inline(always)]
fn mask_row(at: &Rows<'_>, row: usize, scores: &mut [f32]) {
    let positions = at.dims.positions;
    let mask = &at.mask[row * at.mask_stride..][..positions];
    for (score, &mask) in scores[..positions].iter_mut().zip(mask) {
        *score = *score * at.scale + mask;
    }
    scores[positions..].fill(f32::NEG_INFINITY);
}

vectorized! {
    /// From products to shares after dropout, in place, and the statistics of each row.
    fn shares(at: &Rows<'_>, scores: &mut [f32], largest: &mut [f32], sums: &mut [f32]) {
        for (row, scores) in scores.chunks_exact_mut(at.columns).enumerate() {
            mask_row(at, row, scores);
            let most = largest_of(scores);
            let mut lanes = [0f32; LANES];
            for chunk in scores.chunks_exact_mut(LANES) {
                for lane in 0..LANES {
                    chunk[lane] = exp(chunk[lane] - most);
                    lanes[lane] += chunk[lane];
                }
            }
            let sum = sum_lanes(lanes);
            (largest[row], sums[row]) = (most, sum);
            let share = 1.0 / sum;
            match at.dropout {
                None => scores.iter_mut().for_each(|score| *score *= share),
                Some((dropout, keys)) => {
                    let start = (at.first + row as u32).wrapping_mul(PLACE_STRIDE);
                    for (column, score) in scores.iter_mut().enumerate() {
                        let bits = bits(start.wrapping_add(column as u32), keys);
                        *score = *score * share * dropout.factor(bits);
                    }
                }
            }
        }
    }

    /// From products to shares after dropout, in place, and from the shares' cotangents to
    /// the products', in place.
    fn score_slopes(
        at: &Rows<'_>,
        pass: &BackwardRows<'_>,
        scores: &mut [f32],
        slopes: &mut [f32],
    ) {
        let (head_size, hidden) = (at.dims.head_size, at.dims.hidden());
        let rows = scores.chunks_exact_mut(at.columns).zip(slopes.chunks_exact_mut(at.columns));
        for (row, (scores, slopes)) in rows.enumerate() {
            mask_row(at, row, scores);
            slopes[at.dims.positions..].fill(0.0);
            // The sum of each share times its cotangent: what the output is made of.
            let output = &pass.output[row * hidden..][..head_size];
            let cotangent = &pass.cotangent[row * hidden..][..head_size];
            let along = dot(output, cotangent);
            let (most, share) = (pass.largest[row], 1.0 / pass.sums[row]);
            let pairs = scores.iter_mut().zip(slopes.iter_mut());
            match at.dropout {
                None => {
                    for (score, slope) in pairs {
                        let part = exp(*score - most) * share;
                        *score = part;
                        *slope = part * (*slope - along) * at.scale;
                    }
                }
                Some((dropout, keys)) => {
                    let start = (at.first + row as u32).wrapping_mul(PLACE_STRIDE);
                    for (column, (score, slope)) in pairs.enumerate() {
                        let bits = bits(start.wrapping_add(column as u32), keys);
                        let factor = dropout.factor(bits);
                        let part = exp(*score - most) * share;
                        *score = part * factor;
                        *slope = part * (*slope * factor - along) * at.scale;
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    let whole = a.len() / LANES * LANES;
    for (a, b) in a[..whole].chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for lane in 0..LANES {
            lanes[lane] = a[lane].mul_add(b[lane], lanes[lane]);
        }
    }
    let rest: f32 = a[whole..].iter().zip(&b[whole..]).map(|(a, b)| a * b).sum();
    sum_lanes(lanes) + rest
}
