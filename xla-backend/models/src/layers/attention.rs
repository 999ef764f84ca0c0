//! Multi-head attention as transformers' eager one computes it: scaled scores,
//! plus an additive mask, softmax, dropout, weighted values.
//!
//! B rows, S queries, T keys, H hidden, N heads, D head size (H = N D).

use traind_xla::ops::{AttentionSpec, DotDims};
use traind_xla::{DType, Tensor};

use super::Linear;
use super::dropout::dropout_of_heads;
use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::model::Forward;
use crate::parameters::{Dimension, ParameterPath};

#[derive(Clone, Debug)]
pub struct AttentionConfig {
    pub hidden_size: usize,
    pub num_heads: usize,
    pub dropout: f64,
    pub initializer_range: f64,
}

impl AttentionConfig {
    /// Refuses heads that do not divide the hidden size, naming `heads_key`.
    pub fn check(&self, config: &ModelConfig, heads_key: &str) -> Result<()> {
        check_heads(config, heads_key, self.num_heads, self.hidden_size)
    }
}

/// Refuses heads that do not divide the hidden size, naming `heads_key`.
pub fn check_heads(
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
pub struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    heads: Heads,
}

impl Attention {
    /// `names` are those of the query, key and value projections.
    pub fn new(path: &mut ParameterPath<'_>, names: [&str; 3], config: &AttentionConfig) -> Self {
        let size = config.hidden_size;
        let heads = Dimension::heads(size, config.num_heads, 1);
        let [query, key, value] =
            names.map(|name| Linear::new(path.at(name), size, heads, config.initializer_range));
        let head_size = (size / config.num_heads) as f64;
        let scale = head_size.powf(-0.5);
        let heads = Heads { num_heads: config.num_heads, scale, dropout: config.dropout };
        Attention { query, key, value, heads }
    }

    /// `x` [B S, H] attends to itself; `mask` [B, 1, 1 or S, S] is added to the scores.
    pub fn forward(&self, cx: &Forward<'_>, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let x = &cx.fan_out(x)?;
        let query = self.query.forward(cx, x)?;
        let key = self.key.forward(cx, x)?;
        let value = self.value.forward(cx, x)?;
        attend(cx, [&query, &key, &value], mask, &self.heads)
    }

    /// `x` [B S, H] attends to `source` [B T, H], which is fanned out, or to its cached keys; `mask` [B, 1, 1 or S, T] is
    /// added to the scores.
    pub fn forward_to(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        source: Option<&Tensor>,
        mask: &Tensor,
    ) -> Result<Tensor> {
        let query = self.query.forward(cx, &cx.fan_out(x)?)?;
        let project = || -> Result<[Tensor; 2]> {
            let source = states_of(source)?;
            Ok([self.key.forward(cx, source)?, self.value.forward(cx, source)?])
        };
        if cx.cache.is_none() {
            let [key, value] = project()?;
            return attend_projected(cx, [&query, &key, &value], mask, &self.heads);
        }
        let split = |x: &Tensor| self.heads.split(cx, x, mask.dims()[0]);
        let [key, value] = cx.with_source(|| {
            let [key, value] = project()?;
            Ok([split(&key)?, split(&value)?])
        })?;
        attend_heads(cx, [&split(&query)?, &key, &value], mask, &self.heads)
    }
}

/// The states of a source that are not cached.
pub fn states_of(source: Option<&Tensor>) -> Result<&Tensor> {
    source.ok_or_else(|| Error::MissingInput { name: "encoder states".to_owned() })
}

/// How queries, keys and values are compared.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// On all cores that share the layer.
    pub num_heads: usize,
    /// What scores are multiplied with.
    pub scale: f64,
    pub dropout: f64,
}

impl Heads {
    /// [B S, H] to [B, S, N, D], of all heads or of those that this core has.
    pub fn split(&self, cx: &Forward<'_>, x: &Tensor, rows: usize) -> Result<Tensor> {
        split_heads(x, rows, self.num_heads / cx.core_count())
    }
}

/// Attention of tokens to themselves and to those that are cached: queries, keys and values
/// [B S, H] to [B S, H].
pub fn attend(
    cx: &Forward<'_>,
    projected: [&Tensor; 3],
    mask: &Tensor,
    heads: &Heads,
) -> Result<Tensor> {
    if cx.cache.is_none() {
        return attend_projected(cx, projected, mask, heads);
    }
    let split = |x: &Tensor| heads.split(cx, x, mask.dims()[0]);
    let [query, key, value] = projected;
    let [key, value] = cx.with_cached([split(key)?, split(value)?])?;
    match cx.cached_positions() {
        Some(_) => attend_heads(cx, [&split(query)?, &key, &value], mask, heads),
        None => attend_projected(cx, projected, mask, heads),
    }
}

/// Queries [B S, H], keys and values [B T, H] to [B S, H], of all heads or of those that this core
/// has. Scores and softmax are float32 whatever those are.
fn attend_projected(
    cx: &Forward<'_>,
    projected: [&Tensor; 3],
    mask: &Tensor,
    heads: &Heads,
) -> Result<Tensor> {
    let [query, key, value] = projected;
    let num_heads = heads.num_heads / cx.core_count();
    let of_one_length = query.dims() == key.dims();
    if cx.trace.calls_kernels() && query.dtype() == DType::F32 && of_one_length {
        let Heads { scale, dropout, .. } = *heads;
        let spec = AttentionSpec { num_heads, scale, dropout };
        let random = cx.random_of_heads(num_heads)?;
        return Ok(query.attention(key, value, mask, spec, random.as_ref())?);
    }
    let rows = mask.dims()[0];
    let split = |x: &Tensor| heads.split(cx, x, rows);
    let (query, key, value) = (split(query)?, split(key)?, split(value)?);
    attend_heads(cx, [&query, &key, &value], mask, heads)
}

/// Queries [B, S, N, D], keys and values [B, T, K, D] to [B S, N D], where K divides N:
/// each key and value serves N / K queries.
pub fn attend_heads(
    cx: &Forward<'_>,
    [query, key, value]: [&Tensor; 3],
    mask: &Tensor,
    heads: &Heads,
) -> Result<Tensor> {
    let &[rows, positions, num_heads, size] = query.dims() else { return Ok(query.clone()) };
    let scores = scores(query, key)?.convert(DType::F32)?;
    let shares = scores.mul_scalar(heads.scale)?.add(mask)?.softmax(3)?;
    let shares = dropout_of_heads(cx, &shares, heads.dropout)?.convert(value.dtype())?;
    Ok(weighted(&shares, value)?.reshape(&[rows * positions, num_heads * size])?)
}

/// [B S, H] to [B, S, N, D].
pub fn split_heads(x: &Tensor, rows: usize, num_heads: usize) -> Result<Tensor> {
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

/// What is added to a score that must not count. Not infinity: where nothing
/// counts, all are equal and softmax stays finite.
const HIDDEN: f64 = f32::MIN as f64;

/// From a mask s32[B, S] of ones and, where padded, zeros to what is added to
/// scores: f32[B, 1, 1, S].
pub fn additive_mask(mask: &Tensor) -> Result<Tensor> {
    let hidden = mask.convert(DType::F32)?.sub_scalar(1.0)?;
    Ok(hidden.mul_scalar(-HIDDEN)?.unsqueeze(1)?.unsqueeze(1)?)
}

/// The same where a token also sees none behind itself and, with a window, only so many
/// up to itself: f32[B, 1, S, S]. In a pass of one token a row, the keys are the slots of the cache
/// up to that token's: f32[B, 1, 1, T].
pub fn causal_mask(cx: &Forward<'_>, mask: &Tensor, window: Option<usize>) -> Result<Tensor> {
    let &[rows, positions] = mask.dims() else { return additive_mask(mask) };
    if let (Some(query), Some(cache)) = (cx.cached_positions(), cx.cache) {
        let dims = [rows, 1, 1, cache.slots()];
        let key = cx.trace.iota(DType::S32, &dims, 3)?;
        let query = query.reshape(&[rows, 1, 1, 1])?.broadcast_to(&dims)?;
        return mask_of(&is_near(&query, &key, window)?);
    }
    let trace = mask.trace();
    let square = [positions, positions];
    let (query, key) = (trace.iota(DType::S32, &square, 0)?, trace.iota(DType::S32, &square, 1)?);
    let present = mask.ne_scalar(0.0)?.reshape(&[rows, 1, 1, positions])?;
    let dims = [rows, 1, positions, positions];
    let near = is_near(&query, &key, window)?;
    mask_of(&near.broadcast_to(&dims)?.and(&present.broadcast_to(&dims)?)?)
}

/// `mask` f32[B, 1, S, S] where a row holds several texts, and no token sees those of another:
/// `position_ids` s32[B, S] begin at 0 with each text.
pub fn within_texts(mask: &Tensor, position_ids: Option<&Tensor>) -> Result<Tensor> {
    let Some(position_ids) = position_ids else { return Ok(mask.clone()) };
    let &[rows, positions] = position_ids.dims() else { return Ok(mask.clone()) };
    let trace = mask.trace();
    // The place where a token's text begins.
    let start = trace.iota(DType::S32, &[rows, positions], 1)?.sub(position_ids)?;
    let dims = [rows, 1, positions, positions];
    let query = start.reshape(&[rows, 1, positions, 1])?.broadcast_to(&dims)?;
    let key = start.reshape(&[rows, 1, 1, positions])?.broadcast_to(&dims)?;
    Ok(query.eq(&key)?.select(mask, &trace.scalar(HIDDEN, DType::F32)?)?)
}

/// Whether a query sees a key, by their positions.
fn is_near(query: &Tensor, key: &Tensor, window: Option<usize>) -> Result<Tensor> {
    let near = key.le(query)?;
    match window {
        Some(window) => Ok(near.and(&query.sub(key)?.lt_scalar(window as f64)?)?),
        None => Ok(near),
    }
}

/// From which keys are visible to what is added to scores.
fn mask_of(visible: &Tensor) -> Result<Tensor> {
    let trace = visible.trace();
    Ok(visible.select(&trace.scalar(0.0, DType::F32)?, &trace.scalar(HIDDEN, DType::F32)?)?)
}
