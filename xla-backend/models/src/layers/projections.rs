//! The projections to queries, keys and values, in three matrices or in one.
//!
//! B rows, S positions, N heads of queries, K of keys and values, D head size.

use traind_xla::Tensor;

use super::Linear;
use crate::error::Result;
use crate::model::Forward;
use crate::parameters::{Dimension, Init, ParameterPath};

/// The heads of queries, and those of keys and values, each of which serves several queries where they
/// are fewer (Ainslie et al., 2023).
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadCounts {
    /// The heads of queries.
    pub queries: usize,
    /// The heads of keys, and those of values.
    pub keys: usize,
    /// The width of a head.
    pub head_size: usize,
}

impl HeadCounts {
    /// The joined width of the queries.
    pub(crate) fn query_width(&self) -> Dimension {
        Dimension::heads(self.queries * self.head_size, self.queries, 1)
    }

    /// The joined width of the keys, and of the values.
    pub(crate) fn key_width(&self) -> Dimension {
        Dimension::shared_heads(self.keys * self.head_size, self.keys)
    }

    /// The joined width of queries, keys and values.
    fn joined_width(&self) -> Dimension {
        let heads = self.queries + 2 * self.keys;
        Dimension::joined_heads(heads * self.head_size, self.queries, self.keys)
    }
}

/// The names of the projections.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProjectionNames {
    /// Three matrices: of queries, keys and values.
    Apart([&'static str; 3]),
    /// One behind the other in one matrix.
    Joined(&'static str),
}

/// Layers that project states to queries, keys and values.
#[derive(Clone, Debug)]
pub(crate) struct Projections {
    matrices: Matrices,
    heads: HeadCounts,
}

#[derive(Clone, Debug)]
enum Matrices {
    Apart([Linear; 3]),
    Joined(Linear),
}

impl Projections {
    /// Declares the layers, which read states of `hidden_size`.
    pub(crate) fn new(
        path: &mut ParameterPath<'_>,
        names: ProjectionNames,
        hidden_size: usize,
        heads: HeadCounts,
        bias: bool,
        init: impl Into<Init>,
    ) -> Projections {
        let init = init.into();
        let mut linear = |name: &str, width: Dimension| {
            Linear::with_bias_if(bias, path.at(name), hidden_size, width, init)
        };
        let (queries, keys) = (heads.query_width(), heads.key_width());
        let matrices = match names {
            ProjectionNames::Joined(name) => Matrices::Joined(linear(name, heads.joined_width())),
            ProjectionNames::Apart([query, key, value]) => {
                Matrices::Apart([linear(query, queries), linear(key, keys), linear(value, keys)])
            }
        };
        Projections { matrices, heads }
    }

    /// `x` [B S, H], which is fanned out, to queries [B S, N D], keys and values [B S, K D] of this
    /// core's heads.
    pub(crate) fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<[Tensor; 3]> {
        match &self.matrices {
            Matrices::Apart([query, key, value]) => {
                let query = cx.for_read_tokens(x, |cx, x| query.forward(cx, x))?;
                Ok([query, key.forward(cx, x)?, value.forward(cx, x)?])
            }
            Matrices::Joined(joined) => {
                let joined = joined.forward(cx, x)?;
                let widths = [self.heads.query_width(), self.heads.key_width()];
                let [queries, keys] = widths.map(|width| width.size / cx.core_count());
                let part = |from: usize, width: usize| joined.slice(1, from, from + width);
                Ok([part(0, queries)?, part(queries, keys)?, part(queries + keys, keys)?])
            }
        }
    }
}
