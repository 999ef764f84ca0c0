//! Multi-head attention (Vaswani et al. 2017): scaled scores plus an additive mask,
//! softmax, dropout, weighted values. Scores and softmax are float32 whatever the operands
//! are.
//!
//! B rows, S positions, N heads, D head size, H = N D.

use super::composite::Composite;
use super::random::block_bits;
use super::{Backward, DotDims, Problem, Random, ResultStorage};
use crate::error::Result;
use crate::graph::{DType, Shape};
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

/// Query, key and value [B S, H], mask f32[B, 1, 1 or S, S] and, where shares are dropped, the
/// keys of the random bits u32[2, B, N] give [B S, H] and, as a second result, the statistics
/// of each query's scores f32[B, N, 2, S]: the largest, and the sum of exponentials of how far
/// the others are below it.
#[derive(Clone, Copy, Debug)]
struct Attention(AttentionSpec);

/// The same operands, then both results and the cotangent of the first, give the gradients of
/// query, key and value.
#[derive(Clone, Copy, Debug)]
struct AttentionGradient(AttentionSpec);

impl Tensor {
    /// Attention of these queries `[B S, H]` to keys and values of the same shape. `mask`
    /// f32`[B, 1, 1 or S, S]` is added to the scores. With `random`, shares are dropped.
    pub fn attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        mask: &Tensor,
        spec: AttentionSpec,
        random: Option<&Random>,
    ) -> Result<Tensor> {
        let dropping = random.filter(|_| spec.dropout > 0.0);
        let Some(random) = dropping else {
            let spec = AttentionSpec { dropout: 0.0, ..spec };
            return self.apply(Attention(spec), &[key, value, mask]);
        };
        let [rows, positions] = [0, 3].map(|axis| mask.dims().get(axis).copied().unwrap_or(0));
        let keys = random.keys(&[rows, spec.num_heads, positions, positions])?;
        self.apply(Attention(spec), &[key, value, mask, &keys])
    }
}

/// B, S and H of the operands, whose mask is the fourth.
fn sizes(inputs: &[Shape]) -> [usize; 3] {
    let mask = &inputs[3].dims;
    [mask[0], mask[3], inputs[0].dims[1]]
}

fn statistics_shape(spec: AttentionSpec, inputs: &[Shape]) -> Shape {
    let [rows, positions, _] = sizes(inputs);
    let dtype = if inputs[0].dtype == DType::F64 { DType::F64 } else { DType::F32 };
    Shape::new(dtype, [rows, spec.num_heads, 2, positions])
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

impl AttentionSpec {
    fn check(self, inputs: &[Shape]) -> Result<(), Problem> {
        let [query, key, value, mask, keys @ ..] = inputs else {
            return Err("takes queries, keys, values and a mask".into());
        };
        let of_one_shape = query == key && query == value && query.dtype.is_float();
        if !of_one_shape || query.rank() != 2 {
            return Err("takes queries, keys and values of one shape [B S, H]".into());
        }
        if !query.dims[1].is_multiple_of(self.num_heads.max(1)) {
            return Err(format!("{} heads do not divide the hidden size", self.num_heads).into());
        }
        let fits = match mask.dims[..] {
            [rows, 1, queries, positions] => {
                (queries == 1 || queries == positions) && rows * positions == query.dims[0]
            }
            _ => false,
        };
        if !fits || mask.dtype != DType::F32 {
            return Err("takes a mask f32[B, 1, 1 or S, S]".into());
        }
        let expected = Shape::new(DType::U32, [2, mask.dims[0], self.num_heads]);
        match (keys, self.dropout > 0.0) {
            ([], false) => Ok(()),
            ([keys], true) if *keys == expected => Ok(()),
            _ => Err("takes the keys of random bits where shares are dropped".into()),
        }
    }

    fn operand_count(self) -> usize {
        if self.dropout > 0.0 { 5 } else { 4 }
    }

    /// Attention of a query to key and value under a mask, whose shares pass through `dropped`.
    fn attend(
        self,
        [query, key, value, mask]: [&Tensor; 4],
        dropped: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Parts> {
        let split = |x: &Tensor| self.split_heads(x, mask);
        let (query, key, value) = (split(query)?, split(key)?, split(value)?);
        let scores = query.dot_general(&key, scores_dims())?.widen()?;
        let scores = scores.mul_scalar(self.scale)?.add(&mask.convert(scores.dtype())?)?;
        let shares = scores.softmax(3)?;
        let dropped = dropped(&shares)?.convert(value.dtype())?;
        let output = join_heads(&dropped.dot_general(&value, weighted_dims())?)?;
        Ok(Parts { scores, shares, dropped, output })
    }

    /// [B S, H] to [B, S, N, D].
    fn split_heads(self, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let (&[tokens, hidden], Some(&rows)) = (x.dims(), mask.dims().first()) else {
            return Ok(x.clone());
        };
        let (rows, heads) = (rows.max(1), self.num_heads.max(1));
        x.reshape(&[rows, tokens / rows, heads, hidden / heads])
    }

    /// The same from the operands of the operation.
    fn parts(self, inputs: &[Tensor]) -> Result<Parts> {
        let operands = [&inputs[0], &inputs[1], &inputs[2], &inputs[3]];
        self.attend(operands, |shares| self.drop_by_keys(shares, inputs))
    }

    fn drop_by_keys(self, shares: &Tensor, inputs: &[Tensor]) -> Result<Tensor> {
        let [_, positions, _] = sizes(&shapes(inputs));
        match inputs[..self.operand_count()].get(4) {
            Some(keys) => shares.dropped(self.dropout, &block_bits(keys, [positions, positions])?),
            None => Ok(shares.clone()),
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
        let attributes = format!(
            "dropout = {:?} : f64, heads = {} : i64, scale = {:?} : f64",
            self.dropout, self.num_heads, self.scale
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
        let statistics = at.output.part(1, statistics_shape(self.0, &shapes(at.inputs)))?;
        let mut rest: Vec<&Tensor> = at.inputs[1..].iter().collect();
        rest.extend([at.output, &statistics, at.cotangent]);
        let query = at.inputs[0].apply(AttentionGradient(self.0), &rest)?;
        let [key, value] = [1, 2].map(|index| query.part(index, query.shape().clone()));
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
        let expected = statistics_shape(self.0, inputs);
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
        let (spec, cotangent) = (self.0, &inputs[self.0.operand_count() + 2]);
        let Parts { shares, dropped, .. } = spec.parts(inputs)?;
        let split = |x: &Tensor| spec.split_heads(x, &inputs[3]);
        let (query, key, value) = (split(&inputs[0])?, split(&inputs[1])?, split(&inputs[2])?);
        let cotangent = split(cotangent)?;
        let to_dropped = cotangent.dot_general(&value, scores_dims())?.widen()?;
        let to_shares = spec.drop_by_keys(&to_dropped, inputs)?;
        let along = shares.mul(&to_shares)?.sum_keep(&[3])?;
        let to_scores = to_shares.sub(&along)?.mul(&shares)?.mul_scalar(spec.scale)?;
        let to_scores = to_scores.convert(query.dtype())?;
        Ok(vec![
            join_heads(&to_scores.dot_general(&key, weighted_dims())?)?,
            join_heads(&to_scores.dot_general(&query, gathered_dims())?)?,
            join_heads(&dropped.dot_general(&cotangent, gathered_dims())?)?,
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
