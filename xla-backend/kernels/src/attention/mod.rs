//! Multi-head attention, forward and backward, a head and a block of queries at a time:
//! scores live in scratch memory that stays in the cache, and nothing of S × S is kept.
//! Where queries see no keys behind their own position, those are not computed, and neither are keys at either end of
//! a row that the mask hides from all its queries: padding. Rows may also be packed, one behind the other without their
//! padding, which then is not computed at all.
//!
//! B rows, S positions, T tokens (B S in padded rows), N heads of queries, K of keys and values, D head size.

mod block;
mod scores;

use std::ops::Range;

use crate::hash::Dropout;
use crate::matrix::multiply;
use crate::scratch::with_scratch;
use block::{Block, Head, Span, columns};
use scores::{BackwardRows, Rows, first_key, score_slopes, shares};

/// The scores of a block of queries take at most about so many floats: half of a small
/// level-2 cache, of which the backward pass has two such blocks.
const BLOCK_ELEMENTS: usize = 1 << 15;
/// Fewer queries than this make a slow product.
const BLOCK_ROWS_MIN: usize = 16;
/// With more queries in a block of causal attention, too many products of it are hidden.
const CAUSAL_ROWS_MAX: usize = 64;
/// A mask at or below it leaves nothing of a share, if another key of the row has 0.
const HIDDEN: f32 = -1e30;

#[derive(Clone, Copy, Debug)]
pub struct Dims {
    pub rows: usize,
    pub positions: usize,
    pub heads: usize,
    /// Heads of keys and values, each for as many consecutive heads of queries.
    pub key_heads: usize,
    pub head_size: usize,
    /// 1 where all queries of a row share the mask, else S.
    pub mask_queries: usize,
}

/// Operands of both passes. Queries are [T, N D], keys and values [T, K D], the mask that is added to
/// scores [B, 1 or S, S]. Mask, first keys and dropout count positions, whether rows are padded or packed.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    pub dims: Dims,
    pub query: &'a [f32],
    pub key: &'a [f32],
    pub value: &'a [f32],
    pub mask: &'a [f32],
    /// The first key that each query of causal attention sees, [B, S]; the last is at the query's
    /// own position.
    pub starts: Option<&'a [i32]>,
    /// Where rows are packed, the place of each position's token among the T, [B, S]; T and more where there is none.
    /// The tokens of a row stand one behind the other, and those of the rows in their order.
    pub tokens: Option<&'a [i32]>,
    /// Multiplies scores before the mask is added.
    pub scale: f32,
    /// Dropout of the shares, and the two keys of each head, [2, B, N].
    pub dropout: Option<(Dropout, &'a [u32])>,
}

/// Statistics that the backward pass needs of the forward pass: per query the largest score and the
/// sum of exponentials of what the others are below it, [B, N, 2, S], and zeros where packed rows have no token.
pub fn statistics_len(dims: &Dims) -> usize {
    dims.rows * dims.heads * 2 * dims.positions
}

/// `output` [T, N D], with zeros behind and between packed rows, and [`statistics_len`] `statistics`.
pub fn forward(operands: &Operands<'_>, output: &mut [f32], statistics: &mut [f32]) {
    let dims = operands.check();
    assert_eq!(output.len(), operands.query.len());
    assert_eq!(statistics.len(), statistics_len(&dims));
    let spans = operands.spans();
    clear_between(&spans, output, dims.hidden());
    if operands.tokens.is_some() {
        statistics.fill(0.0);
    }
    with_scratch::<1>(operands.block_elements(&spans), |[scores]| {
        for head in dims.heads(&spans) {
            let statistics = &mut statistics[head.statistics()];
            let (largest, sums) = statistics.split_at_mut(dims.positions);
            for block in operands.blocks(head) {
                let scores = &mut scores[..block.elements()];
                operands.scores(&block, scores);
                shares(
                    &operands.row_arguments(&block),
                    scores,
                    &mut largest[block.queries.clone()],
                    &mut sums[block.queries.clone()],
                );
                let to = block.queries_mut(output);
                multiply(to, block.matrix(scores), block.keys_of(operands.value), false);
            }
        }
    });
}

/// Values that the backward pass reads besides the operands.
#[derive(Clone, Copy, Debug)]
pub struct Cotangent<'a> {
    pub output: &'a [f32],
    pub statistics: &'a [f32],
    /// The cotangent of the output.
    pub cotangent: &'a [f32],
}

/// Gradients of queries, keys and values, in their shapes, with zeros behind and between packed rows.
pub fn backward(operands: &Operands<'_>, at: &Cotangent<'_>, gradients: [&mut [f32]; 3]) {
    let dims = operands.check();
    let [to_query, to_key, to_value] = gradients;
    for len in [at.output.len(), at.cotangent.len(), to_query.len()] {
        assert_eq!(len, operands.query.len());
    }
    assert_eq!([to_key.len(), to_value.len()], [operands.key.len(); 2]);
    assert_eq!(at.statistics.len(), statistics_len(&dims));
    let spans = operands.spans();
    let hides_keys = spans.iter().any(|span| operands.attended(span).len() < span.len);
    let begins_at_zero = hides_keys || operands.starts.is_some() || dims.key_heads < dims.heads;
    clear_between(&spans, to_query, dims.hidden());
    for gradient in [&mut *to_key, &mut *to_value] {
        match begins_at_zero {
            true => gradient.fill(0.0),
            false => clear_between(&spans, gradient, dims.key_hidden()),
        }
    }
    with_scratch::<2>(operands.block_elements(&spans), |[scores, slopes]| {
        for head in dims.heads(&spans) {
            let (largest, sums) = at.statistics[head.statistics()].split_at(dims.positions);
            for block in operands.blocks(head) {
                let (scores, slopes) =
                    (&mut scores[..block.elements()], &mut slopes[..block.elements()]);
                operands.scores(&block, scores);
                let cotangent = block.queries_of(at.cotangent);
                let values = block.keys_of(operands.value).transposed();
                multiply(block.matrix_mut(slopes), cotangent, values, false);
                let pass = BackwardRows {
                    largest: &largest[block.queries.clone()],
                    sums: &sums[block.queries.clone()],
                    output: &at.output[block.offset()..],
                    cotangent: &at.cotangent[block.offset()..],
                };
                score_slopes(&operands.row_arguments(&block), &pass, scores, slopes);
                let (shares, slopes) = (block.matrix(scores), block.matrix(slopes));
                let adds = begins_at_zero || block.queries.start > head.span.positions().start;
                multiply(block.keys_mut(to_value), shares.transposed(), cotangent, adds);
                let queries = block.queries_of(operands.query);
                multiply(block.keys_mut(to_key), slopes.transposed(), queries, adds);
                multiply(block.queries_mut(to_query), slopes, block.keys_of(operands.key), false);
            }
        }
    });
}

/// Writes zeros into rows of `to` that belong to no token.
fn clear_between(spans: &[Span], to: &mut [f32], width: usize) {
    let mut end = 0;
    for span in spans {
        to[end * width..span.token * width].fill(0.0);
        end = span.token + span.len;
    }
    to[end * width..].fill(0.0);
}

impl Dims {
    /// The width of a row of queries.
    fn hidden(&self) -> usize {
        self.heads * self.head_size
    }

    /// The width of a row of keys.
    fn key_hidden(&self) -> usize {
        self.key_heads * self.head_size
    }

    fn heads(self, spans: &[Span]) -> impl Iterator<Item = Head> {
        spans
            .iter()
            .flat_map(move |&span| (0..self.heads).map(move |head| Head { dims: self, span, head }))
    }
}

impl<'a> Operands<'a> {
    fn check(&self) -> Dims {
        let dims = self.dims;
        let positions = dims.rows * dims.positions;
        let tokens = match self.tokens {
            Some(_) => self.query.len() / dims.hidden().max(1),
            None => positions,
        };
        assert!(dims.key_heads > 0 && dims.heads.is_multiple_of(dims.key_heads));
        assert_eq!(self.query.len(), tokens * dims.hidden());
        assert_eq!([self.key.len(), self.value.len()], [tokens * dims.key_hidden(); 2]);
        assert!(dims.mask_queries == 1 || dims.mask_queries == dims.positions);
        assert_eq!(self.mask.len(), dims.rows * dims.mask_queries * dims.positions);
        for by_position in [self.starts, self.tokens].into_iter().flatten() {
            assert_eq!(by_position.len(), positions);
        }
        if let Some((_, keys)) = self.dropout {
            assert_eq!(keys.len(), 2 * dims.rows * dims.heads);
        }
        dims
    }

    /// The tokens of each row.
    fn spans(&self) -> Vec<Span> {
        let Dims { rows, positions, .. } = self.dims;
        let Some(tokens) = self.tokens else {
            return (0..rows).map(|row| Span::of_padded(row, positions)).collect();
        };
        let count = self.query.len() / self.dims.hidden().max(1);
        let mut end = 0;
        let packed = tokens.chunks(positions.max(1)).enumerate().map(|(row, tokens)| {
            let span = Span::of_packed(row, tokens, count, end);
            end = span.token + span.len;
            span
        });
        packed.collect()
    }

    /// The queries of a block in a row of `len` tokens.
    fn block_rows(&self, len: usize) -> usize {
        let most = if self.starts.is_some() { CAUSAL_ROWS_MAX } else { usize::MAX };
        let rows = (BLOCK_ELEMENTS / columns(len).max(1)).clamp(BLOCK_ROWS_MIN, most);
        // Blocks of one size: 96 positions are two of 48, not one of 64 and one of 32.
        let blocks = len.div_ceil(rows).max(1);
        len.div_ceil(blocks).max(1)
    }

    /// The number of elements of scratch memory for any block.
    fn block_elements(&self, spans: &[Span]) -> usize {
        let of_row = |span: &Span| self.block_rows(span.len) * columns(span.len);
        spans.iter().map(of_row).max().unwrap_or(0)
    }

    fn blocks(&self, head: Head) -> impl Iterator<Item = Block> {
        let (rows, positions) = (self.block_rows(head.span.len), head.span.positions());
        positions.clone().step_by(rows).map(move |first| {
            let queries = first..positions.end.min(first + rows);
            Block { head, keys: self.keys(head, &queries), queries }
        })
    }

    /// The keys that any of some queries sees.
    fn keys(&self, head: Head, queries: &Range<usize>) -> Range<usize> {
        match self.starts_of(head, queries) {
            None => self.attended(&head.span),
            Some(starts) => {
                let firsts = starts.iter().map(|&start| first_key(start, queries.start));
                firsts.min().unwrap_or(0).max(head.span.positions().start)..queries.end
            }
        }
    }

    /// The keys of a row from the first to the last that its queries see; all where each has a mask of its own, or the
    /// row has nothing but hidden keys.
    fn attended(&self, span: &Span) -> Range<usize> {
        let positions = span.positions();
        if self.dims.mask_queries > 1 || self.starts.is_some() {
            return positions;
        }
        let mask = &self.mask[span.row * self.dims.positions..][positions.clone()];
        let is_seen = |mask: &f32| *mask > HIDDEN || mask.is_nan();
        match (mask.iter().position(is_seen), mask.iter().rposition(is_seen)) {
            (Some(first), Some(last)) => positions.start + first..positions.start + last + 1,
            _ => positions,
        }
    }

    fn starts_of(&self, head: Head, queries: &Range<usize>) -> Option<&'a [i32]> {
        let of_row = &self.starts?[head.span.row * self.dims.positions..];
        Some(&of_row[queries.clone()])
    }

    /// Products of a block's queries with its keys.
    fn scores(&self, block: &Block, to: &mut [f32]) {
        let keys = block.keys_of(self.key).transposed();
        multiply(block.matrix_mut(to), block.queries_of(self.query), keys, false);
    }

    fn row_arguments(&self, block: &Block) -> Rows<'a> {
        let (dims, head) = (self.dims, &block.head);
        let mask = &self.mask[head.span.row * dims.mask_queries * dims.positions..];
        let shared = dims.mask_queries == 1;
        Rows {
            dims,
            queries: block.queries.clone(),
            keys: block.keys.clone(),
            scale: self.scale,
            mask: if shared { mask } else { &mask[block.queries.start * dims.positions..] },
            mask_stride: if shared { 0 } else { dims.positions },
            starts: self.starts_of(*head, &block.queries),
            dropout: self.dropout.map(|(dropout, keys)| {
                let second = dims.rows * dims.heads + head.index();
                (dropout, [keys[head.index()], keys[second]])
            }),
        }
    }
}
