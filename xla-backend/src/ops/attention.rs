//! Multi-head attention (Vaswani et al. 2017): scaled scores plus an additive mask,
//! softmax, dropout, weighted values. Scores and softmax are float32 whatever the operands
//! are.
//!
//! B rows, S positions, N heads of queries, K of keys and values, D head size.

use super::composite::Composite;
use super::random::block_bits;
use super::{Backward, DotDims, Problem, Random, ResultStorage};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::attributes::{flag, integer, number};
use crate::kernels::{AttentionBackward, AttentionForward, KernelUse};
use crate::tensor::Tensor;

/// How queries and keys are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionSpec {
    pub num_heads: usize,
    /// What scores are multiplied with.
    pub scale: f64,
    /// The rate at which shares are dropped.
    pub dropout: f64,
}

/// Which keys the queries see.
#[derive(Clone, Copy, Debug)]
pub struct VisibleKeys<'a> {
    /// Added to the scores, f32`[B, 1, 1 or S, S]`.
    pub mask: &'a Tensor,
    /// In causal attention, the first key that each query sees, s32`[B, S]`; the last one is at the
    /// query's own position, which it sees always.
    pub starts: Option<&'a Tensor>,
}

/// What attention is recorded with, and which operands it has besides queries, keys, values and mask.
#[derive(Clone, Copy, Debug)]
struct Call {
    spec: AttentionSpec,
    is_causal: bool,
}

/// Query [B S, N D], key and value [B S, K D], mask f32[B, 1, 1 or S, S], in causal attention the first
/// visible keys s32[B, S] and, where shares are dropped, the keys of the random bits u32[2, B, N] give
/// [B S, N D] and, as a second result, the statistics of each query's scores f32[B, N, 2, S]: the
/// largest, and the sum of exponentials of how far the others are below it.
#[derive(Clone, Copy, Debug)]
struct Attention(Call);

/// The same operands, then both results and the cotangent of the first, give the gradients of
/// query, key and value.
#[derive(Clone, Copy, Debug)]
struct AttentionGradient(Call);

impl Tensor {
    /// Attention of these queries `[B S, N D]` to keys and values `[B S, K D]`, where K divides N:
    /// each key serves N / K consecutive heads. With `random`, shares are dropped.
    pub fn attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        visible: VisibleKeys<'_>,
        spec: AttentionSpec,
        random: Option<&Random>,
    ) -> Result<Tensor> {
        let VisibleKeys { mask, starts } = visible;
        let random = random.filter(|_| spec.dropout > 0.0);
        let [rows, positions] = [0, 3].map(|axis| mask.dims().get(axis).copied().unwrap_or(0));
        let square = [rows, spec.num_heads, positions, positions];
        let keys = random.map(|random| random.keys(&square)).transpose()?;
        let dropout = if keys.is_some() { spec.dropout } else { 0.0 };
        let call = Call { spec: AttentionSpec { dropout, ..spec }, is_causal: starts.is_some() };
        let operands = [Some(key), Some(value), Some(mask), starts, keys.as_ref()];
        let operands: Vec<&Tensor> = operands.into_iter().flatten().collect();
        self.apply(Attention(call), &operands)
    }
}

/// B and S of the operands, whose mask is the fourth.
fn sizes(inputs: &[Shape]) -> [usize; 2] {
    let mask = &inputs[3].dims;
    [mask[0], mask[3]]
}

/// What attention computes on the way, B N S S.
struct Parts {
    /// After scaling and masking.
    scores: Tensor,
    shares: Tensor,
    /// After dropout, in the type of products.
    dropped: Tensor,
    /// [B S, H].
    output: Tensor,
}

fn shapes(inputs: &[Tensor]) -> Vec<Shape> {
    inputs.iter().map(|input| input.shape().clone()).collect()
}

impl Call {
    fn check(self, inputs: &[Shape]) -> Result<(), Problem> {
        let [query, key, value, mask, rest @ ..] = inputs else {
            return Err("takes queries, keys, values and a mask".into());
        };
        self.check_heads([query, key, value])?;
        let fits = match mask.dims[..] {
            [rows, 1, queries, positions] => {
                (queries == 1 || queries == positions) && rows * positions == query.dims[0]
            }
            _ => false,
        };
        if !fits || mask.dtype != DType::F32 {
            return Err("takes a mask f32[B, 1, 1 or S, S]".into());
        }
        let [rows, positions] = sizes(inputs);
        let starts = self.is_causal.then(|| Shape::new(DType::S32, [rows, positions]));
        let keys = Shape::new(DType::U32, [2, rows, self.spec.num_heads]);
        let keys = (self.spec.dropout > 0.0).then_some(keys);
        if !rest.iter().eq(starts.iter().chain(&keys)) {
            return Err("takes first keys s32[B, S] where it is causal, and the keys of random \
                        bits where shares are dropped"
                .into());
        }
        Ok(())
    }

    fn check_heads(self, [query, key, value]: [&Shape; 3]) -> Result<(), Problem> {
        let (&[tokens, hidden], &[key_tokens, key_hidden]) = (&query.dims[..], &key.dims[..])
        else {
            return Err("takes queries [B S, N D]".into());
        };
        if key != value || key_tokens != tokens || query.dtype != key.dtype {
            return Err("takes keys and values [B S, K D] of the queries' type".into());
        }
        let heads = self.spec.num_heads.max(1);
        if !query.dtype.is_float() || !hidden.is_multiple_of(heads) {
            return Err(format!("{heads} heads do not divide the hidden size").into());
        }
        let size = (hidden / heads).max(1);
        let key_heads = (key_hidden / size).max(1);
        if key_heads * size != key_hidden || !heads.is_multiple_of(key_heads) {
            return Err(format!("keys of width {key_hidden} do not serve {heads} heads").into());
        }
        Ok(())
    }

    fn operand_count(self) -> usize {
        4 + usize::from(self.is_causal) + usize::from(self.spec.dropout > 0.0)
    }

    fn statistics_shape(self, inputs: &[Shape]) -> Shape {
        let [rows, positions] = sizes(inputs);
        let dtype = if inputs[0].dtype == DType::F64 { DType::F64 } else { DType::F32 };
        Shape::new(dtype, [rows, self.spec.num_heads, 2, positions])
    }

    /// What the operation computes, from its operands.
    fn parts(self, inputs: &[Tensor]) -> Result<Parts> {
        let [query, key, value] = self.split(inputs)?;
        let scores = query.dot_general(&key, scores_dims())?.widen()?;
        let scores = scores.mul_scalar(self.spec.scale)?;
        let scores = self.hide(&scores.add(&inputs[3].convert(scores.dtype())?)?, inputs)?;
        let shares = scores.softmax(3)?;
        let dropped = self.drop_by_keys(&shares, inputs)?.convert(value.dtype())?;
        let output = join_heads(&dropped.dot_general(&value, weighted_dims())?)?;
        Ok(Parts { scores, shares, dropped, output })
    }

    /// Queries, keys and values [B, S, N, D].
    fn split(self, inputs: &[Tensor]) -> Result<[Tensor; 3]> {
        let [query, key, value] = [0, 1, 2].map(|index| self.split_heads(&inputs[index], inputs));
        Ok([query?, key?, value?])
    }

    /// [B S, N D] or, repeated for the heads that it serves, [B S, K D] to [B, S, N, D].
    fn split_heads(self, x: &Tensor, inputs: &[Tensor]) -> Result<Tensor> {
        let [rows, positions] = sizes(&shapes(inputs));
        let (heads, hidden) = (self.spec.num_heads, inputs[0].dims()[1]);
        let size = hidden / heads;
        let own = (x.dims()[1] / size).max(1);
        let apart = x.reshape(&[rows, positions, own, 1, size])?;
        let repeated = apart.broadcast_to(&[rows, positions, own, heads / own, size])?;
        repeated.reshape(&[rows, positions, heads, size])
    }

    /// The sum over the heads that a key serves: [B, N, S, D] to [B S, K D].
    fn join_keys(self, x: &Tensor, inputs: &[Tensor]) -> Result<Tensor> {
        let [rows, positions] = sizes(&shapes(inputs));
        let (heads, width) = (self.spec.num_heads, inputs[1].dims()[1]);
        let size = inputs[0].dims()[1] / heads;
        let own = width / size;
        let apart = x.swap_axes(1, 2)?.reshape(&[rows, positions, own, heads / own, size])?;
        apart.sum(&[3])?.reshape(&[rows * positions, width])
    }

    /// Hides keys from the queries of causal attention.
    fn hide(self, scores: &Tensor, inputs: &[Tensor]) -> Result<Tensor> {
        if !self.is_causal {
            return Ok(scores.clone());
        }
        let &[rows, _, positions, _] = scores.dims() else { return Ok(scores.clone()) };
        let dims = [rows, 1, positions, positions];
        let trace = scores.trace();
        let (query, key) = (trace.iota(DType::S32, &dims, 2)?, trace.iota(DType::S32, &dims, 3)?);
        let start = inputs[4].reshape(&[rows, 1, positions, 1])?.broadcast_to(&dims)?;
        let visible = key.le(&query)?.and(&start.minimum(&query)?.le(&key)?)?;
        let hidden = trace.scalar(f64::NEG_INFINITY, scores.dtype())?;
        visible.broadcast_to(scores.dims())?.select(scores, &hidden)
    }

    fn drop_by_keys(self, shares: &Tensor, inputs: &[Tensor]) -> Result<Tensor> {
        let [_, positions] = sizes(&shapes(inputs));
        let keys = &inputs[self.operand_count() - 1];
        match self.spec.dropout > 0.0 {
            true => shares.dropped(self.spec.dropout, &block_bits(keys, [positions, positions])?),
            false => Ok(shares.clone()),
        }
    }

    /// Both results.
    fn expand(self, inputs: &[Tensor]) -> Result<[Tensor; 2]> {
        let Parts { scores, output, .. } = self.parts(inputs)?;
        let largest = scores.max_keep(&[3])?;
        let sums = scores.sub(&largest)?.exp()?.sum_keep(&[3])?;
        let statistics = scores.trace().concatenate(&[&largest, &sums], 3)?.swap_axes(2, 3)?;
        Ok([output, statistics])
    }

    /// A kernel that multiplies matrices of the scores' size and a head `products` times.
    fn kernel_use<K: traind_pjrt::Kernel>(
        self,
        inputs: &[Shape],
        products: f64,
    ) -> Option<KernelUse> {
        let flops = products * 2.0 * (inputs[0].element_count() * sizes(inputs)[1]) as f64;
        let AttentionSpec { num_heads, scale, dropout } = self.spec;
        let attributes = format!(
            "causal = {}, dropout = {}, heads = {}, scale = {}",
            flag(self.is_causal),
            number(dropout),
            integer(num_heads),
            number(scale)
        );
        (inputs[0].dtype == DType::F32).then(|| KernelUse::of::<K>(attributes).with_flops(flops))
    }
}

/// [B, S, N, D] and [B, T, N, D] to [B, N, S, T].
fn scores_dims() -> DotDims {
    DotDims {
        lhs_batch: vec![0, 2],
        rhs_batch: vec![0, 2],
        lhs_contracting: vec![3],
        rhs_contracting: vec![3],
    }
}

/// [B, N, S, T] and [B, T, N, D] to [B, N, S, D].
fn weighted_dims() -> DotDims {
    DotDims {
        lhs_batch: vec![0, 1],
        rhs_batch: vec![0, 2],
        lhs_contracting: vec![3],
        rhs_contracting: vec![1],
    }
}

/// [B, N, S, T] and [B, S, N, D] to [B, N, T, D].
fn gathered_dims() -> DotDims {
    DotDims {
        lhs_batch: vec![0, 1],
        rhs_batch: vec![0, 2],
        lhs_contracting: vec![2],
        rhs_contracting: vec![1],
    }
}

/// [B, N, S, D] to [B S, H].
fn join_heads(x: &Tensor) -> Result<Tensor> {
    let [rows, heads, positions, head_size] = x.dims()[..] else { return Ok(x.clone()) };
    x.swap_axes(1, 2)?.reshape(&[rows * positions, heads * head_size])
}

impl Composite for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        self.0.check(inputs)?;
        Ok(inputs[0].clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let [output, _] = self.0.expand(inputs)?;
        Ok(output)
    }

    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(self.0.expand(inputs)?.into())
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        self.0.kernel_use::<AttentionForward>(inputs, 2.0)
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let statistics = at.output.part(1, self.0.statistics_shape(&shapes(at.inputs)))?;
        let mut rest: Vec<&Tensor> = at.inputs[1..].iter().collect();
        rest.extend([at.output, &statistics, at.cotangent]);
        let query = at.inputs[0].apply(AttentionGradient(self.0), &rest)?;
        let [key, value] = [1, 2].map(|index| query.part(index, at.inputs[index].shape().clone()));
        let mut gradients = vec![Some(query), Some(key?), Some(value?)];
        gradients.resize(at.inputs.len(), None);
        Ok(gradients)
    }
}

impl Composite for AttentionGradient {
    fn name(&self) -> &'static str {
        "attention_gradient"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let count = self.0.operand_count();
        if inputs.len() != count + 3 {
            return Err(format!("takes {} operands, got {}", count + 3, inputs.len()).into());
        }
        self.0.check(&inputs[..count])?;
        let [output, statistics, cotangent] = [0, 1, 2].map(|index| &inputs[count + index]);
        let expected = self.0.statistics_shape(inputs);
        if output != &inputs[0] || cotangent != output || *statistics != expected {
            return Err("takes both results and a cotangent of the first".into());
        }
        Ok(inputs[0].clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        Ok(self.expand_all(inputs)?.remove(0))
    }

    /// The compiler merges the parts with those of the forward pass.
    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let call = self.0;
        let Parts { shares, dropped, .. } = call.parts(inputs)?;
        let [query, key, value] = call.split(inputs)?;
        let cotangent = call.split_heads(&inputs[call.operand_count() + 2], inputs)?;
        let to_dropped = cotangent.dot_general(&value, scores_dims())?.widen()?;
        let to_shares = call.drop_by_keys(&to_dropped, inputs)?;
        let along = shares.mul(&to_shares)?.sum_keep(&[3])?;
        let to_scores = to_shares.sub(&along)?.mul(&shares)?.mul_scalar(call.spec.scale)?;
        let to_scores = to_scores.convert(query.dtype())?;
        let of_keys = |x: &Tensor| call.join_keys(x, inputs);
        Ok(vec![
            join_heads(&to_scores.dot_general(&key, weighted_dims())?)?,
            of_keys(&to_scores.dot_general(&query, gathered_dims())?)?,
            of_keys(&dropped.dot_general(&cotangent, gathered_dims())?)?,
        ])
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        self.0.kernel_use::<AttentionBackward>(inputs, 5.0)
    }

    fn gradient(&self, _at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let op = Composite::name(self).to_owned();
        Err(crate::Error::NotDifferentiable { op })
    }
}
