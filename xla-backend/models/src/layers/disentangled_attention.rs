//! Disentangled attention (He et al., 2020) as transformers' `DisentangledSelfAttention` computes it: to the
//! score of a query and a key are added that of the query and the vector of their distance, and that of the
//! key and this vector.
//!
//! B rows, S positions, H hidden, N heads, D head size, A half the rows of the table of distances.

use traind_xla::ops::DotDims;
use traind_xla::{DType, Tensor};

use super::{
    Attention, AttentionConfig, AttentionMask, Linear, attend_heads, dropout_of_all, split_heads,
};
use crate::error::Result;
use crate::flops;
use crate::model::Forward;
use crate::parameters::{Dimension, ParameterPath};

#[derive(Clone, Copy, Debug)]
pub(crate) struct DisentangledConfig {
    /// `None` where scores do not depend on distances.
    pub distances: Option<Distances>,
    /// Whether queries are compared with distances.
    pub to_position: bool,
    /// Whether keys are compared with distances.
    pub from_position: bool,
    /// Whether the vectors of distances are projected by the matrices of contents.
    pub shares_projections: bool,
    /// The names of the projections of distances that are compared with queries and with keys.
    pub position_projections: [&'static str; 2],
    /// The rate at which the vectors of distances are dropped.
    pub position_dropout: f64,
    /// Whether the table of distances is normalized.
    pub normalizes_distances: bool,
}

impl DisentangledConfig {
    /// Floating-point operations of the terms in a row of `positions` tokens of width `hidden`: each projects and
    /// compares the vectors of all distances.
    pub(crate) fn forward_flops(&self, positions: usize, hidden: usize) -> f64 {
        let (positions, hidden) = (positions as f64, hidden as f64);
        let distances = 2.0 * positions - 1.0;
        let term =
            distances * flops::dot(hidden, hidden) + positions * flops::dot(distances, hidden);
        let terms = [self.to_position, self.from_position];
        let terms = terms.into_iter().filter(|has| *has && self.distances.is_some()).count();
        terms as f64 * term
    }
}

/// The rows of the table that distances take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Distances {
    /// The buckets of each direction, of which half are one distance each and the others are as wide as
    /// its logarithm; `None` where each distance has its own.
    pub buckets: Option<usize>,
    /// The distance beyond which all are one.
    pub reach: usize,
}

impl Distances {
    /// The rows of each direction: A.
    pub(crate) fn span(self) -> usize {
        self.buckets.unwrap_or(self.reach)
    }

    /// The row of a query that is `distance` behind its key: `make_log_bucket_position`, in float32 as
    /// there.
    fn row(self, distance: i64) -> usize {
        let span = self.span() as i64;
        let bucket = match self.buckets {
            Some(buckets) => log_bucket(distance, buckets as i64, self.reach as i64),
            None => distance,
        };
        (bucket + span).clamp(0, 2 * span - 1) as usize
    }
}

fn log_bucket(distance: i64, buckets: i64, reach: i64) -> i64 {
    let (exact, length) = (buckets / 2, distance.abs());
    if length <= exact {
        return distance;
    }
    let ratio = ((reach - 1) as f64 / exact as f64) as f32;
    let share = (length as f32 / exact as f32).ln() / ratio.ln();
    let bucket = (share * (exact - 1) as f32).ceil() as i64 + exact;
    bucket * distance.signum()
}

#[derive(Clone, Debug)]
pub(crate) struct DisentangledAttention {
    /// The projections of contents, and how their heads are compared.
    contents: Attention,
    /// The projections of distances for queries and for keys, where contents have others.
    position_key: Option<Linear>,
    position_query: Option<Linear>,
    config: DisentangledConfig,
}

impl DisentangledAttention {
    /// Adds terms of distances to the attention of `contents`, which has these `sizes`.
    pub(crate) fn new(
        path: &mut ParameterPath<'_>,
        mut contents: Attention,
        sizes: &AttentionConfig,
        config: DisentangledConfig,
    ) -> DisentangledAttention {
        let AttentionConfig { hidden_size, num_heads, initializer_range, .. } = *sizes;
        let terms = [config.to_position, config.from_position];
        let factor = 1 + terms.into_iter().filter(|has| *has).count();
        contents.heads.scale = ((hidden_size / num_heads * factor) as f64).powf(-0.5);
        let width = Dimension::heads(hidden_size, num_heads, 1);
        let mut linear =
            |name: &str| Linear::new(path.at(name), hidden_size, width, initializer_range);
        let has_own = config.distances.is_some() && !config.shares_projections;
        let [key, query] = config.position_projections;
        DisentangledAttention {
            contents,
            position_key: (has_own && config.to_position).then(|| linear(key)),
            position_query: (has_own && config.from_position).then(|| linear(query)),
            config,
        }
    }

    /// `x` [B S, H] attends to itself. `table` f32[2 A, H] has the vectors of distances.
    pub(crate) fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        table: Option<&Tensor>,
    ) -> Result<Tensor> {
        let x = &cx.fan_out(x)?;
        let Attention { query, key, value, heads } = &self.contents;
        let split = |layer: &Linear| heads.split(cx, &layer.forward(cx, x)?, mask.rows());
        let (query, key, value) = (split(query)?, split(key)?, split(value)?);
        let mut mask = mask.clone();
        if let (Some(table), Some(distances)) = (table, self.config.distances)
            && let Some(scores) = self.position_scores(cx, &query, &key, table, distances)?
        {
            mask = mask.with_learned(&scores)?;
        }
        attend_heads(cx, [&query, &key, &value], &mask, heads)
    }

    /// The terms of distances, f32[B, N, S, S].
    fn position_scores(
        &self,
        cx: &Forward<'_>,
        query: &Tensor,
        key: &Tensor,
        table: &Tensor,
        distances: Distances,
    ) -> Result<Option<Tensor>> {
        let positions = query.dims()[1];
        let last = positions as i64 - 1;
        // No row of the batch has vectors of its own, so that all draw the same.
        let random = cx.random.map(|random| random.of_no_row()).transpose()?;
        let cx = &Forward { random: random.as_ref(), ..*cx };
        let table = dropout_of_all(cx, table, self.config.position_dropout)?;
        let DisentangledConfig { to_position, from_position, .. } = self.config;
        let sign = if to_position { -1 } else { 1 };
        let rows = (-last..=last).map(|ahead| distances.row(sign * ahead) as f64);
        let vectors = rows_of(&table, &rows.collect::<Vec<_>>())?;
        let projected = |linear: &Linear, vectors: &Tensor| -> Result<Tensor> {
            let by_head = split_heads(&linear.forward(cx, vectors)?, 1, query.dims()[2])?;
            Ok(by_head.squeeze(0)?)
        };
        let mut sum = None;
        if to_position {
            let own = self.position_key.as_ref().unwrap_or(&self.contents.key);
            // The key is so far ahead of the query.
            sum = Some(compared(query, &projected(own, &vectors)?)?);
        }
        if from_position {
            let own = self.position_query.as_ref().unwrap_or(&self.contents.query);
            // The query is so far ahead of the key: the same distances from the other end.
            let vectors = if to_position { vectors.reverse(&[0])? } else { vectors };
            let scores = compared(key, &projected(own, &vectors)?)?.swap_axes(2, 3)?;
            sum = Some(sum.map_or_else(|| Ok(scores.clone()), |sum: Tensor| sum.add(&scores))?);
        }
        sum.map(|sum| Ok(sum.swap_axes(0, 1)?.mul_scalar(self.contents.heads.scale)?)).transpose()
    }
}

/// Rows of a table by a product with one-hot rows, since the gradient of a gather is a scatter that adds
/// row after row.
fn rows_of(table: &Tensor, rows: &[f64]) -> Result<Tensor> {
    let numbers = table.trace().constant(DType::S32, &[rows.len()], rows)?;
    Ok(numbers.one_hot(table.dims()[0], table.dtype())?.matmul(table)?)
}

/// Scores f32[N, B, S, S] of `x` [B, S, N, D] with vectors [2 S - 1, N, D]: that of position i and column j
/// is the one with the vector of j - i, which stands at j - i + S - 1.
fn compared(x: &Tensor, vectors: &Tensor) -> Result<Tensor> {
    let &[rows, positions, heads, _] = x.dims() else { return Ok(x.clone()) };
    let dims = DotDims {
        lhs_batch: vec![2],
        rhs_batch: vec![1],
        lhs_contracting: vec![3],
        rhs_contracting: vec![2],
    };
    let scores = x.dot_general(vectors, dims)?.convert(DType::F32)?;
    if positions == 1 {
        return Ok(scores);
    }
    // Without the first S - 1 values, each row begins one place later than the row before.
    let width = 2 * positions - 1;
    let flat = scores.reshape(&[heads, rows, positions * width])?;
    let shifted = flat.slice(2, positions - 1, positions - 1 + positions * (width - 1))?;
    let shifted = shifted.reshape(&[heads, rows, positions, width - 1])?;
    Ok(shifted.slice(3, 0, positions)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `starts` are the lengths that begin a bucket, by transformers' `make_log_bucket_position`.
    fn check(buckets: usize, reach: usize, starts: &[i64]) {
        let distances = Distances { buckets: Some(buckets), reach };
        let begins = |length: &i64| distances.row(*length) != distances.row(length - 1);
        let found: Vec<i64> = (1..2 * reach as i64).filter(begins).collect();
        assert_eq!(found, starts, "{buckets} buckets up to {reach}");
        for length in 1..reach as i64 - 1 {
            let span = buckets as i64;
            let bucket = |distance| distances.row(distance) as i64 - span;
            assert_eq!(bucket(-length), -bucket(length));
        }
    }

    #[test]
    fn buckets_begin_where_those_of_transformers_do() {
        check(8, 16, &[1, 2, 3, 4, 5, 7, 10]);
        let ones: Vec<i64> = (1..=17).collect();
        let wide = vec![19, 22, 25, 28, 32, 37, 43, 49, 56, 64, 74, 84, 97, 111];
        check(32, 128, &[ones, wide].concat());
        let third = Distances { buckets: Some(256), reach: 512 };
        let rows = [131, 132, 133, 135, 250, 473, 474, 505, 506].map(|length| third.row(length));
        assert_eq!(rows, [387, 387, 388, 389, 446, 504, 505, 510, 511]);
    }
}
