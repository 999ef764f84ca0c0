//! The arithmetic of attention without a kernel. A long row is computed in blocks of queries, one after the
//! other: memory holds the scores of one block, and no buffer grows with the square of the length. The
//! backward pass computes the scores of each block again.
//!
//! B rows, S positions, Q queries of a block, T keys that they may see, N heads of queries, K of keys
//! and values, D head size.

use std::ops::Range;
use std::slice;

use super::{Call, sizes};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::ops::DotDims;
use crate::ops::random::block_bits;
use crate::tensor::{Tensor, Trace};

/// The positions from which a row is computed in blocks.
pub const LONG_ROW: usize = 1024;

/// The queries of a block.
const BLOCK: usize = 512;

/// Bytes of a score.
const SCORE_BYTES: usize = 4;

/// Some queries of each row, and the number of keys that they may see.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    queries: Range<usize>,
    keys: usize,
}

/// The operands of attention, as the queries of a block read them.
struct Operands {
    call: Call,
    first_query: usize,
    /// [B, Q, N, D].
    query: Tensor,
    /// [B, T, N, D].
    key: Tensor,
    /// [B, T, N, D].
    value: Tensor,
    /// f32[B, 1, 1 or Q, T].
    mask: Tensor,
    /// In causal attention, the first key that each query sees, s32[B, 1, Q, 1].
    starts: Option<Tensor>,
    /// The keys of random bits, where shares are dropped.
    random: Option<Tensor>,
    /// False, which is known when what comes before the block is there.
    never: Option<Tensor>,
}

impl Call {
    /// Traces both results: output and statistics.
    pub(super) fn forward(self, inputs: &[Tensor]) -> Result<[Tensor; 2]> {
        let trace = inputs[0].trace();
        let (mut outputs, mut statistics) = (Vec::new(), Vec::new());
        for block in self.blocks(inputs) {
            let awaited = outputs.last().map(slice::from_ref).unwrap_or_default();
            let at = Operands::read(self, inputs, &block, awaited)?;
            let scores = at.scores()?;
            let largest = scores.max_keep(&[3])?;
            let powers = scores.sub(&largest)?.exp()?;
            let sums = powers.sum_keep(&[3])?;
            let dropped = at.dropped(&powers.div(&sums)?)?.convert(at.value.dtype())?;
            outputs.push(join_heads(&dropped.dot_general(&at.value, weighted_dims())?)?);
            statistics.push(trace.concatenate(&[&largest, &sums], 3)?.swap_axes(2, 3)?);
        }
        let output = joined(trace, &outputs, 1)?.reshape(inputs[0].dims())?;
        Ok([output, joined(trace, &statistics, 3)?])
    }

    /// The gradients of query, key and value. The last block comes first, since it sees all keys.
    pub(super) fn backward(self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let blocks = self.blocks(inputs);
        let cotangent = &inputs[self.operand_count() + 2];
        // The compiler merges a single block with that of the forward pass.
        let mut awaited = if blocks.len() > 1 { vec![cotangent.clone()] } else { Vec::new() };
        let (mut queries, mut keys) = (Vec::new(), None);
        for block in blocks.iter().rev() {
            let [query, own @ ..] = self.block_gradients(inputs, block, &awaited)?;
            let sums = match keys {
                None => own,
                Some(sums) => added(sums, &own)?,
            };
            awaited = vec![query.clone(), sums[0].clone(), sums[1].clone()];
            queries.insert(0, query);
            keys = Some(sums);
        }
        let query = joined(inputs[0].trace(), &queries, 1)?.reshape(inputs[0].dims())?;
        let back = |x: &Tensor| x.reshape(inputs[1].dims())?.convert(inputs[1].dtype());
        let mut gradients = vec![query];
        for sum in keys.iter().flatten() {
            gradients.push(back(sum)?);
        }
        Ok(gradients)
    }

    /// The gradients of a block's queries [B, Q, N D], and what they add to those of keys and values
    /// [B, T, K D].
    fn block_gradients(
        self,
        inputs: &[Tensor],
        block: &Block,
        awaited: &[Tensor],
    ) -> Result<[Tensor; 3]> {
        let at = Operands::read(self, inputs, block, awaited)?;
        let [statistics, cotangent] = [1, 2].map(|index| &inputs[self.operand_count() + index]);
        let statistics = part(statistics, 3, &block.queries)?;
        let of_queries = |index| statistics.slice(2, index, index + 1)?.swap_axes(2, 3);
        let (largest, sums): (Result<Tensor>, Result<Tensor>) = (of_queries(0), of_queries(1));
        let shares = at.scores()?.sub(&largest?)?.exp()?.div(&sums?)?;
        let dropped = at.dropped(&shares)?.convert(at.value.dtype())?;
        let cotangent = part(&self.split_heads(cotangent, inputs)?, 1, &block.queries)?;
        // Its product with all values would be as early as it can.
        let cotangent = later(cotangent, at.never.as_ref())?;
        let to_dropped = cotangent.dot_general(&at.value, scores_dims())?.widen()?;
        let to_shares = at.dropped(&to_dropped)?;
        let along = shares.mul(&to_shares)?.sum_keep(&[3])?;
        let to_scores = to_shares.sub(&along)?.mul(&shares)?.mul_scalar(self.spec.scale)?;
        let to_scores = to_scores.convert(at.query.dtype())?;
        // Blocks are added in float32.
        let is_only = block.queries.len() == inputs[3].dims()[3];
        let of_keys = |x: &Tensor| {
            let sum = self.join_keys(x, inputs)?;
            if is_only { Ok(sum) } else { sum.widen() }
        };
        Ok([
            join_heads(&to_scores.dot_general(&at.key, weighted_dims())?)?,
            of_keys(&to_scores.dot_general(&at.query, gathered_dims())?)?,
            of_keys(&dropped.dot_general(&cotangent, gathered_dims())?)?,
        ])
    }

    /// The bytes of `count` tensors of the scores that are computed at once.
    pub(super) fn score_bytes(self, inputs: &[Shape], count: usize) -> usize {
        let [rows, positions] = sizes(inputs);
        let queries = if positions < LONG_ROW { positions } else { BLOCK };
        count * SCORE_BYTES * rows * self.spec.num_heads * queries * positions
    }

    fn blocks(self, inputs: &[Tensor]) -> Vec<Block> {
        Block::of_rows(inputs[3].dims()[3], self.is_causal)
    }

    /// [B S, N D] or, repeated for the heads that it serves, [B S, K D] to [B, S, N, D].
    fn split_heads(self, x: &Tensor, inputs: &[Tensor]) -> Result<Tensor> {
        let mask = inputs[3].dims();
        let (heads, hidden) = (self.spec.num_heads, inputs[0].dims()[1]);
        repeated(x, [mask[0], mask[3], heads, hidden / heads])
    }

    /// The sum over the heads that a key serves: [B, N, T, D] to [B, T, K D].
    fn join_keys(self, x: &Tensor, inputs: &[Tensor]) -> Result<Tensor> {
        let &[rows, heads, keys, size] = x.dims() else { return Ok(x.clone()) };
        let width = inputs[1].dims()[1];
        let own = width / size;
        let apart = x.swap_axes(1, 2)?.reshape(&[rows, keys, own, heads / own, size])?;
        apart.sum(&[3])?.reshape(&[rows, keys, width])
    }
}

impl Block {
    /// The blocks of rows of so many positions.
    fn of_rows(positions: usize, is_causal: bool) -> Vec<Block> {
        let size = if positions < LONG_ROW { positions.max(1) } else { BLOCK };
        let block = |first: usize| {
            let end = (first + size).min(positions);
            Block { queries: first..end, keys: if is_causal { end } else { positions } }
        };
        (0..positions.max(1)).step_by(size).map(block).collect()
    }
}

impl Operands {
    /// `inputs` for the queries of `block`, of which nothing is computed before `awaited` are there.
    fn read(call: Call, inputs: &[Tensor], block: &Block, awaited: &[Tensor]) -> Result<Operands> {
        let trace = inputs[0].trace();
        let never = match awaited {
            [] => None,
            awaited => Some(trace.never(awaited)?),
        };
        let split = |index: usize| call.split_heads(&inputs[index], inputs);
        let queries = |x: &Tensor, axis| part(x, axis, &block.queries);
        let keys = |x: &Tensor, axis| part(x, axis, &(0..block.keys));
        let mask = keys(&inputs[3], 3)?;
        let starts = |starts: &Tensor| queries(starts, 1)?.unsqueeze(1)?.unsqueeze(3);
        let random = &inputs[call.operand_count() - 1];
        Ok(Operands {
            call,
            first_query: block.queries.start,
            query: later(queries(&split(0)?, 1)?, never.as_ref())?,
            // Else compilers keep those of all blocks for the backward pass.
            key: later(keys(&split(1)?, 1)?, never.as_ref())?,
            value: later(keys(&split(2)?, 1)?, never.as_ref())?,
            mask: if mask.dims()[2] > 1 { queries(&mask, 2)? } else { mask },
            starts: call.is_causal.then(|| starts(&inputs[4])).transpose()?,
            random: (call.spec.dropout > 0.0)
                .then(|| later(random.clone(), never.as_ref()))
                .transpose()?,
            never,
        })
    }

    /// Scaled and masked scores, [B, N, Q, T].
    fn scores(&self) -> Result<Tensor> {
        let scores = self.query.dot_general(&self.key, scores_dims())?.widen()?;
        let scores = scores.mul_scalar(self.call.spec.scale)?;
        self.hide(&scores.add(&self.mask.convert(scores.dtype())?)?)
    }

    /// Hides keys from the queries of causal attention.
    fn hide(&self, scores: &Tensor) -> Result<Tensor> {
        let Some(starts) = &self.starts else { return Ok(scores.clone()) };
        let &[rows, _, queries, keys] = scores.dims() else { return Ok(scores.clone()) };
        let dims = [rows, 1, queries, keys];
        let trace = scores.trace();
        let query = trace.iota(DType::S32, &dims, 2)?.add_scalar(self.first_query as f64)?;
        let key = trace.iota(DType::S32, &dims, 3)?;
        let start = starts.broadcast_to(&dims)?;
        let visible = key.le(&query)?.and(&start.minimum(&query)?.le(&key)?)?;
        let hidden = trace.scalar(f64::NEG_INFINITY, scores.dtype())?;
        visible.broadcast_to(scores.dims())?.select(scores, &hidden)
    }

    /// Dropout of `shares` [B, N, Q, T].
    fn dropped(&self, shares: &Tensor) -> Result<Tensor> {
        let Some(keys) = &self.random else { return Ok(shares.clone()) };
        let &[_, _, queries, columns] = shares.dims() else { return Ok(shares.clone()) };
        let rows = self.first_query..self.first_query + queries;
        shares.dropped(self.call.spec.dropout, &block_bits(keys, rows, columns)?)
    }
}

/// `x`, which no program reads before it knows `never`.
fn later(x: Tensor, never: Option<&Tensor>) -> Result<Tensor> {
    match never {
        Some(never) => x.withheld(never),
        None => Ok(x),
    }
}

/// A range along `axis`.
fn part(x: &Tensor, axis: usize, range: &Range<usize>) -> Result<Tensor> {
    if *range == (0..x.dims()[axis]) {
        return Ok(x.clone());
    }
    x.slice(axis, range.start, range.end)
}

/// Parts one behind the other along `axis`.
fn joined(trace: &Trace, parts: &[Tensor], axis: usize) -> Result<Tensor> {
    match parts {
        [one] => Ok(one.clone()),
        parts => trace.concatenate(&parts.iter().collect::<Vec<_>>(), axis),
    }
}

/// `sums` [B, S, K D] with what the first T keys and values add, [B, T, K D].
fn added(sums: [Tensor; 2], own: &[Tensor; 2]) -> Result<[Tensor; 2]> {
    let [keys, values] = sums;
    let add = |sum: Tensor, own: &Tensor| {
        let rest = sum.dims()[1] - own.dims()[1];
        sum.add(&if rest > 0 { own.pad(1, 0, rest, 0.0)? } else { own.clone() })
    };
    Ok([add(keys, &own[0])?, add(values, &own[1])?])
}

/// [B S, K D] or [B, S, K, D], each of the K repeated for the heads that it serves, to `to`, which is [B, S, N, D].
pub(super) fn repeated(x: &Tensor, to: [usize; 4]) -> Result<Tensor> {
    let [rows, positions, heads, size] = to;
    let own = (x.shape().element_count() / (rows * positions * size)).max(1);
    let apart = x.reshape(&[rows, positions, own, 1, size])?;
    apart.broadcast_to(&[rows, positions, own, heads / own, size])?.reshape(&to)
}

/// [B, N, Q, D] to [B, Q, N D].
pub(super) fn join_heads(x: &Tensor) -> Result<Tensor> {
    let &[rows, heads, queries, size] = x.dims() else { return Ok(x.clone()) };
    x.swap_axes(1, 2)?.reshape(&[rows, queries, heads * size])
}

/// [B, Q, N, D] and [B, T, N, D] to [B, N, Q, T].
pub(super) fn scores_dims() -> DotDims {
    DotDims {
        lhs_batch: vec![0, 2],
        rhs_batch: vec![0, 2],
        lhs_contracting: vec![3],
        rhs_contracting: vec![3],
    }
}

/// [B, N, Q, T] and [B, T, N, D] to [B, N, Q, D].
pub(super) fn weighted_dims() -> DotDims {
    DotDims {
        lhs_batch: vec![0, 1],
        rhs_batch: vec![0, 2],
        lhs_contracting: vec![3],
        rhs_contracting: vec![1],
    }
}

/// [B, N, Q, T] and [B, Q, N, D] to [B, N, T, D].
pub(super) fn gathered_dims() -> DotDims {
    DotDims {
        lhs_batch: vec![0, 1],
        rhs_batch: vec![0, 2],
        lhs_contracting: vec![2],
        rhs_contracting: vec![1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(positions: usize, is_causal: bool, expected: &[(Range<usize>, usize)]) {
        let expected = expected.iter().cloned().map(|(queries, keys)| Block { queries, keys });
        assert_eq!(Block::of_rows(positions, is_causal), expected.collect::<Vec<_>>());
    }

    #[test]
    fn long_rows_have_blocks() {
        check(1023, true, &[(0..1023, 1023)]);
        check(1024, false, &[(0..512, 1024), (512..1024, 1024)]);
        check(1100, true, &[(0..512, 512), (512..1024, 1024), (1024..1100, 1100)]);
    }
}
