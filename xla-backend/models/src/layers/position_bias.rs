//! The bias of scores by how far a key is from its query. Distances share buckets: one each where
//! they are short, wider ones by their logarithm up to a maximum, and one for all beyond.
//!
//! S queries, T keys, N heads, K buckets.

use traind_xla::{DType, Tensor};

use crate::error::Result;
use crate::model::Forward;
use crate::parameters::{Dimension, Init, ParameterPath, Role};

/// The keys that a query may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Both,
    /// The keys before it, and itself.
    Back,
}

#[derive(Clone, Debug)]
pub(crate) struct PositionBias {
    weight: String,
    rows: usize,
    buckets: Buckets,
}

/// How distances share buckets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buckets {
    pub direction: Direction,
    pub count: usize,
    pub distance_max: usize,
}

impl PositionBias {
    /// The table f32[K, N], of K `rows`. Buckets are the first of them.
    pub(crate) fn new(
        mut path: ParameterPath<'_>,
        [rows, heads]: [usize; 2],
        std: f64,
        buckets: Buckets,
    ) -> PositionBias {
        let dims = [rows.into(), Dimension::heads(heads, heads, 1)];
        let weight = path.declare("weight", Role::Embedding, &dims, Init::Normal { std });
        PositionBias { weight, rows, buckets }
    }

    /// f32[1, N, S, T], of this core's heads.
    ///
    /// A bias depends on the distance alone. Rows of all biases, each row one longer than there
    /// are keys, are shifted by one against the row before, once their last places are cut off:
    /// no lookup is needed, whose gradient would add pair after pair.
    pub(crate) fn forward(&self, cx: &Forward<'_>, [queries, keys]: [usize; 2]) -> Result<Tensor> {
        let distances = queries + keys;
        let biases = self.of_distances(cx, queries, keys)?;
        let heads = biases.dims()[1];
        let rows = biases.swap_axes(0, 1)?.reshape(&[heads, 1, distances])?;
        let rows = rows.broadcast_to(&[heads, queries, distances])?;
        let flat = rows.reshape(&[heads, queries * distances])?;
        let shifted = flat.slice(1, 0, queries * (distances - 1))?;
        let shifted = shifted.reshape(&[heads, queries, distances - 1])?;
        Ok(shifted.slice(2, 0, keys)?.unsqueeze(0)?)
    }

    /// The biases of one query of each row, at `positions` s32[R], and of `keys` keys: f32[R, N, 1, T].
    pub(crate) fn of_queries(
        &self,
        cx: &Forward<'_>,
        positions: &Tensor,
        keys: usize,
    ) -> Result<Tensor> {
        let rows = positions.dims()[0];
        let key = cx.trace.iota(DType::S32, &[rows, keys], 1)?;
        let ahead = key.sub(&positions.unsqueeze(1)?)?;
        let behind = ahead.add_scalar((2 * keys) as f64)?;
        let distance = ahead.lt_scalar(0.0)?.select(&behind, &ahead)?;
        let biases = self.of_distances(cx, keys, keys)?.take(&distance)?;
        Ok(biases.swap_axes(1, 2)?.unsqueeze(2)?)
    }

    /// The biases by (key - query) modulo S + T, f32[S + T, N].
    fn of_distances(&self, cx: &Forward<'_>, queries: usize, keys: usize) -> Result<Tensor> {
        let distances = queries + keys;
        let ahead = (0..keys as i64).map(|distance| self.buckets.bucket(distance));
        let back = (1..=queries as i64).rev().map(|distance| self.buckets.bucket(-distance));
        let numbers: Vec<f64> = ahead.chain(back).map(|bucket| bucket as f64).collect();
        let numbers = cx.trace.constant(DType::S32, &[distances], &numbers)?;
        let table = cx.parameter(&self.weight)?;
        Ok(numbers.one_hot(self.rows, table.dtype())?.matmul(&table)?)
    }
}

impl Buckets {
    /// The bucket of a key that stands `distance` behind its query, before it where negative:
    /// `_relative_position_bucket`, in float32 as there.
    fn bucket(&self, distance: i64) -> usize {
        match self.direction {
            Direction::Both => {
                let count = self.count / 2;
                let ahead = if distance > 0 { count } else { 0 };
                ahead + self.of_length(distance.unsigned_abs() as usize, count)
            }
            Direction::Back => self.of_length((-distance).max(0) as usize, self.count),
        }
    }

    fn of_length(&self, length: usize, count: usize) -> usize {
        let exact = count / 2;
        if length < exact {
            return length;
        }
        let ratio = (self.distance_max as f64 / exact as f64).ln() as f32;
        let share = (length as f32 / exact as f32).ln() / ratio;
        let bucket = exact + (share * (count - exact) as f32) as usize;
        bucket.min(count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `starts` are the lengths that begin a bucket, by transformers' `_relative_position_bucket`.
    fn check(direction: Direction, count: usize, distance_max: usize, starts: &[i64]) {
        let buckets = Buckets { direction, count, distance_max };
        let begins = |length: &i64| buckets.bucket(-length) != buckets.bucket(1 - length);
        let found: Vec<i64> = (1..1000).filter(begins).collect();
        assert_eq!(found, starts, "{direction:?}, {count} buckets up to {distance_max}");
    }

    #[test]
    fn buckets_begin_where_those_of_transformers_do() {
        let ones = |end| (1..=end).collect::<Vec<i64>>();
        let both = [ones(8), vec![12, 16, 23, 32, 46, 64, 91]].concat();
        check(Direction::Both, 32, 128, &both);
        let long = [ones(8), vec![14, 23, 39, 64, 108, 182, 305]].concat();
        check(Direction::Both, 32, 512, &long);
        check(Direction::Both, 12, 50, &[1, 2, 3, 8, 20]);
        let wide = vec![19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113];
        check(Direction::Back, 32, 128, &[ones(16), wide].concat());
        check(Direction::Back, 8, 20, &[1, 2, 3, 4, 6, 9, 14]);
    }

    #[test]
    fn keys_behind_their_query_have_buckets_of_their_own_or_the_first() {
        let buckets = |direction| Buckets { direction, count: 32, distance_max: 128 };
        let of = |direction| [1, 7, 8, 200].map(|distance| buckets(direction).bucket(distance));
        assert_eq!(of(Direction::Both), [17, 23, 24, 31]);
        assert_eq!(of(Direction::Back), [0; 4]);
    }
}
