//! Multi-head attention as transformers' eager one computes it: scaled scores,
//! plus an additive mask, softmax, dropout, weighted values.
//!
//! B rows, S queries, T keys, H hidden, N heads, D head size (H = N D).

use traind_xla::ops::{AttentionSpec, DotDims, LONG_ROW, VisibleKeys};
use traind_xla::{DType, Tensor};

use super::dropout::dropout_of_heads;
use super::{AttentionMask, Linear, PackedTokens, RotaryTable};
use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::model::Forward;
use crate::parameters::{Dimension, ParameterPath};

/// The sizes of an encoder's attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionConfig {
    /// The width of hidden states.
    pub hidden_size: usize,
    /// The heads, which divide that width.
    pub num_heads: usize,
    /// The rate at which probabilities are dropped in training.
    pub dropout: f64,
    /// The standard deviation of drawn weights.
    pub initializer_range: f64,
}

impl AttentionConfig {
    /// Refuses heads that do not divide the hidden size, naming `heads_key`.
    pub(crate) fn check(&self, config: &ModelConfig, heads_key: &str) -> Result<()> {
        check_heads(config, heads_key, self.num_heads, self.hidden_size)
    }
}

/// Refuses heads that do not divide the hidden size, naming `heads_key`.
pub(crate) fn check_heads(
    config: &ModelConfig,
    heads_key: &str,
    num_heads: usize,
    hidden_size: usize,
) -> Result<()> {
    if hidden_size.is_multiple_of(num_heads) {
        return Ok(());
    }
    Err(config.error(heads_key, format!("{num_heads} does not divide hidden size {hidden_size}")))
}

/// Queries, keys and values from three projections; the output projection is
/// the family's, since families name and normalize it differently.
#[derive(Clone, Debug)]
pub(crate) struct Attention {
    pub(super) query: Linear,
    pub(super) key: Linear,
    pub(super) value: Linear,
    pub(super) heads: Heads,
}

impl Attention {
    /// `names` are those of the query, key and value projections.
    pub(crate) fn new(
        path: &mut ParameterPath<'_>,
        names: [&str; 3],
        config: &AttentionConfig,
    ) -> Self {
        Self::projected(path, names, config, true)
    }

    /// Declares attention whose projections have biases if `biased`. `names` are those of the query, key and value
    /// projections.
    pub(crate) fn projected(
        path: &mut ParameterPath<'_>,
        names: [&str; 3],
        config: &AttentionConfig,
        biased: bool,
    ) -> Self {
        let (size, std) = (config.hidden_size, config.initializer_range);
        let heads = Dimension::heads(size, config.num_heads, 1);
        let [query, key, value] =
            names.map(|name| Linear::with_bias_if(biased, path.at(name), size, heads, std));
        let head_size = (size / config.num_heads) as f64;
        let scale = head_size.powf(-0.5);
        let heads =
            Heads { num_heads: config.num_heads, scale, score_cap: None, dropout: config.dropout };
        Attention { query, key, value, heads }
    }

    /// `x` [B S, H] attends to itself.
    pub(crate) fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
    ) -> Result<Tensor> {
        let x = &cx.fan_out(x)?;
        let query = cx.for_read_tokens(x, |cx, x| self.query.forward(cx, x))?;
        let key = self.key.forward(cx, x)?;
        let value = self.value.forward(cx, x)?;
        attend(cx, [&query, &key, &value], mask, &self.heads)
    }

    /// `x` [B S, H] attends to `source` [B T, H], which is fanned out, or to its cached keys.
    pub(crate) fn forward_to(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        source: Option<&Tensor>,
        mask: &AttentionMask,
    ) -> Result<Tensor> {
        let query = self.query.forward(cx, &cx.fan_out(x)?)?;
        let split = |x: &Tensor| self.heads.split(cx, x, mask.rows());
        let [key, value] = cx.with_source(|| {
            let source = states_of(source)?;
            let (key, value) = (self.key.forward(cx, source)?, self.value.forward(cx, source)?);
            Ok([split(&key)?, split(&value)?])
        })?;
        attend_heads(cx, [&split(&query)?, &key, &value], mask, &self.heads)
    }
}

/// The states of a source that are not cached.
pub(crate) fn states_of(source: Option<&Tensor>) -> Result<&Tensor> {
    source.ok_or_else(|| Error::MissingInput { name: "encoder states".to_owned() })
}

/// How queries, keys and values are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    /// The heads on all cores that share the layer.
    pub num_heads: usize,
    /// The factor of scores.
    pub scale: f64,
    /// The bound of scores, to which tanh compresses them before the mask (Gemma 2). No kernel has it.
    pub score_cap: Option<f64>,
    /// The rate at which probabilities are dropped in training.
    pub dropout: f64,
}

impl Heads {
    /// [B S, H] to [B, S, N, D], of all heads or of those that this core has.
    pub(crate) fn split(&self, cx: &Forward<'_>, x: &Tensor, rows: usize) -> Result<Tensor> {
        split_heads(x, rows, self.num_heads / cx.core_count())
    }

    /// D of `queries` [T, N D].
    fn size(&self, cx: &Forward<'_>, queries: &Tensor) -> usize {
        queries.dims()[1] * cx.core_count() / self.num_heads
    }

    /// The keys that packed queries see, where a kernel reads both so.
    fn visible_packed_keys<'a>(
        &self,
        cx: &Forward<'_>,
        mask: &'a AttentionMask,
    ) -> Option<(&'a PackedTokens, VisibleKeys<'a>)> {
        mask.visible_packed_keys(cx).filter(|_| self.score_cap.is_none())
    }
}

/// Attention of tokens to themselves and to those that are cached: queries [B S, N D], keys and values [B S, K D] to
/// [B S, N D], of all heads or of those that this core has.
pub(crate) fn attend(
    cx: &Forward<'_>,
    states: [&Tensor; 3],
    mask: &AttentionMask,
    heads: &Heads,
) -> Result<Tensor> {
    if let Some((packed, visible)) = heads.visible_packed_keys(cx, mask) {
        return attend_at_once(&packed.context_of_rows(cx), states, visible, heads);
    }
    let size = heads.size(cx, states[0]);
    in_rows(cx, states, mask, |cx, [query, key, value]| {
        let split = |x: &Tensor| split_heads(x, mask.rows(), x.dims()[1] / size);
        let [key, value] = cx.with_cached([split(key)?, split(value)?])?;
        attend_heads(cx, [&split(query)?, &key, &value], mask, heads)
    })
}

/// [`attend`] where queries and keys turn with their positions.
pub(crate) fn attend_turned(
    cx: &Forward<'_>,
    states: [&Tensor; 3],
    mask: &AttentionMask,
    heads: &Heads,
    table: &RotaryTable,
) -> Result<Tensor> {
    let size = heads.size(cx, states[0]);
    let split = |x: &Tensor, rows: usize| split_heads(x, rows, x.dims()[1] / size);
    let turned = |table: &RotaryTable, x: &Tensor, rows: usize| -> Result<Tensor> {
        Ok(table.rotate(&split(x, rows)?)?.convert(cx.compute_dtype())?)
    };
    if let Some((packed, visible)) = heads.visible_packed_keys(cx, mask) {
        let (table, [query, key, value]) = (packed.table_of_tokens(table)?, states);
        // As if they were one row.
        let turned = |x: &Tensor| join_heads(&turned(&table, x, 1)?);
        let states = [&turned(query)?, &turned(key)?, value];
        return attend_at_once(&packed.context_of_rows(cx), states, visible, heads);
    }
    in_rows(cx, states, mask, |cx, [query, key, value]| {
        let rows = mask.rows();
        let [key, value] = cx.with_cached([turned(table, key, rows)?, split(value, rows)?])?;
        attend_heads(cx, [&turned(table, query, rows)?, &key, &value], mask, heads)
    })
}

/// Attention as one operation: queries [T, N D], keys and values [T, K D] to [T, N D].
fn attend_at_once(
    cx: &Forward<'_>,
    [query, key, value]: [&Tensor; 3],
    visible: VisibleKeys<'_>,
    heads: &Heads,
) -> Result<Tensor> {
    let num_heads = heads.num_heads / cx.core_count();
    let dropout = if cx.random.is_some() { heads.dropout } else { 0.0 };
    let spec = AttentionSpec { num_heads, scale: heads.scale, dropout };
    let random = cx.random_of_heads(num_heads)?;
    Ok(query.attention(key, value, visible, spec, random.as_ref())?)
}

/// The result of `attend` for queries, keys and values in padded rows, packed if these are.
fn in_rows(
    cx: &Forward<'_>,
    states: [&Tensor; 3],
    mask: &AttentionMask,
    attend: impl FnOnce(&Forward<'_>, [&Tensor; 3]) -> Result<Tensor>,
) -> Result<Tensor> {
    let Some(packed) = mask.packed() else { return attend(cx, states) };
    let [query, key, value] = states.map(|x| packed.pad(x));
    packed.pack(&attend(&packed.context_of_rows(cx), [&query?, &key?, &value?])?)
}

/// Queries [B, S, N, D], keys and values [B, T, K, D] to [B S, N D], where K divides N:
/// each key and value serves N / K queries. Scores and softmax are float32 whatever those are.
///
/// It is one operation where a kernel computes it, and for long rows, whose scores would take memory
/// that grows with the square of their length.
pub(crate) fn attend_heads(
    cx: &Forward<'_>,
    [query, key, value]: [&Tensor; 3],
    mask: &AttentionMask,
    heads: &Heads,
) -> Result<Tensor> {
    let &[rows, positions, num_heads, size] = query.dims() else { return Ok(query.clone()) };
    let dropout = if cx.random.is_some() { heads.dropout } else { 0.0 };
    let spec = AttentionSpec { num_heads, scale: heads.scale, dropout };
    let has_kernel = spec.has_kernel(cx.trace.kernels(), query.shape());
    let is_one = key.dims()[1] == positions && (has_kernel || positions >= LONG_ROW);
    let is_one = is_one && heads.score_cap.is_none();
    if let Some(visible) = mask.visible_keys().filter(|_| is_one) {
        let [query, key, value] = [query, key, value].map(join_heads);
        return mask.of_context(attend_at_once(cx, [&query?, &key?, &value?], visible, heads)?);
    }
    let scores = scores(query, key)?.convert(DType::F32)?.mul_scalar(heads.scale)?;
    let scores = heads.score_cap.map_or_else(|| Ok(scores.clone()), |cap| capped(&scores, cap))?;
    let shares = mask.of_scores(&scores)?.softmax(3)?;
    let shares = dropout_of_heads(cx, &shares, heads.dropout)?.convert(value.dtype())?;
    mask.of_context(weighted(&shares, value)?.reshape(&[rows * positions, num_heads * size])?)
}

/// `x` compressed into -cap to cap by tanh.
pub(crate) fn capped(x: &Tensor, cap: f64) -> Result<Tensor> {
    Ok(x.mul_scalar(1.0 / cap)?.tanh()?.mul_scalar(cap)?)
}

/// [B, S, N, D] to [B S, N D].
fn join_heads(x: &Tensor) -> Result<Tensor> {
    let &[rows, positions, heads, size] = x.dims() else { return Ok(x.clone()) };
    Ok(x.reshape(&[rows * positions, heads * size])?)
}

/// [B S, H] to [B, S, N, D].
pub(crate) fn split_heads(x: &Tensor, rows: usize, num_heads: usize) -> Result<Tensor> {
    let &[tokens, hidden] = x.dims() else { return Ok(x.clone()) };
    Ok(x.reshape(&[rows, tokens / rows, num_heads, hidden / num_heads])?)
}

/// [B, S, N, D] and [B, T, K, D] to [B, N, S, T].
fn scores(query: &Tensor, key: &Tensor) -> Result<Tensor> {
    let (&[rows, positions, heads, size], &[_, keys, shared, _]) = (query.dims(), key.dims())
    else {
        return Ok(query.clone());
    };
    if shared < heads {
        // The queries of one key stand side by side, as rows of one product.
        let query = query.swap_axes(1, 2)?;
        let grouped = query.reshape(&[rows, shared, heads / shared * positions, size])?;
        let dims = DotDims {
            lhs_batch: vec![0, 1],
            rhs_batch: vec![0, 2],
            lhs_contracting: vec![3],
            rhs_contracting: vec![3],
        };
        return Ok(grouped.dot_general(key, dims)?.reshape(&[rows, heads, positions, keys])?);
    }
    Ok(query.dot_general(
        key,
        DotDims {
            lhs_batch: vec![0, 2],
            rhs_batch: vec![0, 2],
            lhs_contracting: vec![3],
            rhs_contracting: vec![3],
        },
    )?)
}

/// [B, N, S, T] and [B, T, K, D] to [B, S, N, D].
fn weighted(shares: &Tensor, value: &Tensor) -> Result<Tensor> {
    let (&[rows, heads, positions, keys], &[_, _, shared, size]) = (shares.dims(), value.dims())
    else {
        return Ok(shares.clone());
    };
    let grouped = shares.reshape(&[rows, shared, heads / shared * positions, keys])?;
    let values = grouped.dot_general(
        value,
        DotDims {
            lhs_batch: vec![0, 1],
            rhs_batch: vec![0, 2],
            lhs_contracting: vec![3],
            rhs_contracting: vec![1],
        },
    )?;
    Ok(values.reshape(&[rows, heads, positions, size])?.swap_axes(1, 2)?)
}
