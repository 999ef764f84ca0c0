//! Multi-head attention (Vaswani et al. 2017): scaled scores plus an additive mask,
//! softmax, dropout, weighted values. Scores and softmax are float32 whatever the operands
//! are.
//!
//! B rows, S positions, T tokens (B S in padded rows), N heads of queries, K of keys and values, D head size.

mod block;
mod cudnn;
mod packed;

use super::composite::Composite;
use super::{Backward, Problem, Random, ResultStorage};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::attributes::{flag, integer, number};
use crate::kernels::{AttentionBackward, AttentionForward, KernelUse, Kernels};
use crate::tensor::Tensor;

pub use block::LONG_ROW;

/// How queries and keys are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionSpec {
    /// The heads of queries.
    pub num_heads: usize,
    /// The factor of scores.
    pub scale: f64,
    /// The rate at which shares are dropped.
    pub dropout: f64,
}

impl AttentionSpec {
    /// Whether one of `kernels` computes attention of these queries `[B, S, N, D]`, without the scores in memory.
    pub fn has_kernel(&self, kernels: Kernels, query: &Shape) -> bool {
        match kernels {
            Kernels::None => false,
            Kernels::Own => query.dtype == DType::F32,
            Kernels::CudnnAttention => self.dropout == 0.0 && cudnn::takes(query),
        }
    }
}

/// Where the tokens of rows stand that are packed: one row behind the other, without padding.
#[derive(Clone, Copy, Debug)]
pub struct PackedRows<'a> {
    /// The token of each place in padded rows, s32`[B S]`; T where there is none.
    pub tokens: &'a Tensor,
    /// The place of each token in padded rows, s32`[T]`; B S behind the last token.
    pub places: &'a Tensor,
}

impl PackedRows<'_> {
    /// Whether one of `kernels` computes attention of packed queries of type `dtype` without their padding. Queries are
    /// products, whose type is that of [`Kernels::operand_dtype`].
    pub fn has_kernel(kernels: Kernels, dtype: DType) -> bool {
        kernels == Kernels::Own && dtype == DType::F32
    }
}

/// Which keys the queries see.
#[derive(Clone, Copy, Debug)]
pub struct VisibleKeys<'a> {
    /// The mask that is added to the scores, f32`[B, 1, 1 or S, S]`.
    pub mask: &'a Tensor,
    /// The first key that each query of causal attention sees, s32`[B, S]`; the last one is at the
    /// query's own position, which it sees always.
    pub starts: Option<&'a Tensor>,
    /// Present where queries and keys are those of packed rows. Mask and starts count the positions of padded rows all
    /// the same.
    pub packed: Option<PackedRows<'a>>,
}

/// The settings of a recorded attention, and its operands besides queries, keys, values and mask.
#[derive(Clone, Copy, Debug)]
struct Call {
    spec: AttentionSpec,
    is_causal: bool,
    is_packed: bool,
}

/// Query [T, N D], key and value [T, K D], mask f32[B, 1, 1 or S, S], in causal attention the first visible keys
/// s32[B, S], of packed rows the token of each place s32[B S] and the place of each token s32[T] and, where shares are
/// dropped, the keys of the random bits u32[2, B, N] give [T, N D] and, as a second result, the statistics of each
/// query's scores f32[B, N, 2, S]: the largest, and the sum of exponentials of how far the others are below it. They
/// are of any value where packed rows have no token; the first result is zero where packed tokens have no place.
#[derive(Clone, Copy, Debug)]
struct Attention(Call);

/// The same operands, then both results and the cotangent of the first, give the gradients of
/// query, key and value.
#[derive(Clone, Copy, Debug)]
struct AttentionGradient(Call);

impl Tensor {
    /// Attention of these queries `[T, N D]` to keys and values `[T, K D]`, where K divides N: each key serves N / K
    /// consecutive heads. With `random`, shares are dropped: those of padded rows, also where rows are packed.
    pub fn attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        visible: VisibleKeys<'_>,
        spec: AttentionSpec,
        random: Option<&Random>,
    ) -> Result<Tensor> {
        let VisibleKeys { mask, starts, packed } = visible;
        let random = random.filter(|_| spec.dropout > 0.0);
        let [rows, positions] = [0, 3].map(|axis| mask.dims().get(axis).copied().unwrap_or(0));
        let square = [rows, spec.num_heads, positions, positions];
        let keys = random.map(|random| random.keys(&square)).transpose()?;
        let dropout = if keys.is_some() { spec.dropout } else { 0.0 };
        let spec = AttentionSpec { dropout, ..spec };
        let call = Call { spec, is_causal: starts.is_some(), is_packed: packed.is_some() };
        let [tokens, places] = [packed.map(|it| it.tokens), packed.map(|it| it.places)];
        let operands = [Some(key), Some(value), Some(mask), starts, tokens, places, keys.as_ref()];
        let operands: Vec<&Tensor> = operands.into_iter().flatten().collect();
        self.apply(Attention(call), &operands)
    }
}

/// B and S of the operands, whose mask is the fourth.
fn sizes(inputs: &[Shape]) -> [usize; 2] {
    let mask = &inputs[3].dims;
    [mask[0], mask[3]]
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
        let tokens = query.dims[0];
        let fits = match mask.dims[..] {
            [rows, 1, queries, positions] => {
                (queries == 1 || queries == positions)
                    && (self.is_packed || rows * positions == tokens)
            }
            _ => false,
        };
        if !fits || mask.dtype != DType::F32 {
            return Err("takes a mask f32[B, 1, 1 or S, S]".into());
        }
        let [rows, positions] = sizes(inputs);
        let numbers = |dims: &[usize]| Shape::new(DType::S32, dims);
        let starts = self.is_causal.then(|| numbers(&[rows, positions]));
        let packed = self.is_packed.then(|| [numbers(&[rows * positions]), numbers(&[tokens])]);
        let keys = Shape::new(DType::U32, [2, rows, self.spec.num_heads]);
        let keys = (self.spec.dropout > 0.0).then_some(keys);
        if !rest.iter().eq(starts.iter().chain(packed.iter().flatten()).chain(&keys)) {
            return Err("takes first keys s32[B, S] where it is causal, tokens s32[B S] and places s32[T] where rows \
                        are packed, and the keys of random bits where shares are dropped"
                .into());
        }
        Ok(())
    }

    fn check_heads(self, [query, key, value]: [&Shape; 3]) -> Result<(), Problem> {
        let (&[tokens, hidden], &[key_tokens, key_hidden]) = (&query.dims[..], &key.dims[..])
        else {
            return Err("takes queries [T, N D]".into());
        };
        if key != value || key_tokens != tokens || query.dtype != key.dtype {
            return Err("takes keys and values [T, K D] of the queries' type".into());
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

    fn has_kernel(self, inputs: &[Shape], kernels: Kernels) -> bool {
        if self.is_packed {
            return PackedRows::has_kernel(kernels, inputs[0].dtype);
        }
        let ([rows, positions], heads) = (sizes(inputs), self.spec.num_heads);
        let query = inputs[0].with_dims([rows, positions, heads, inputs[0].dims[1] / heads]);
        self.spec.has_kernel(kernels, &query)
    }

    /// Whether cuDNN computes it in programs that call `kernels`.
    fn is_cudnn(self, inputs: &[Tensor]) -> bool {
        let kernels = inputs[0].trace().kernels();
        kernels == Kernels::CudnnAttention && self.has_kernel(&shapes(inputs), kernels)
    }

    fn operand_count(self) -> usize {
        let packed = if self.is_packed { 2 } else { 0 };
        4 + usize::from(self.is_causal) + packed + usize::from(self.spec.dropout > 0.0)
    }

    fn statistics_shape(self, inputs: &[Shape]) -> Shape {
        let [rows, positions] = sizes(inputs);
        let dtype = if inputs[0].dtype == DType::F64 { DType::F64 } else { DType::F32 };
        Shape::new(dtype, [rows, self.spec.num_heads, 2, positions])
    }

    /// A kernel that multiplies matrices of the scores' size and a head `products` times.
    fn kernel_use<K: traind_pjrt::Kernel>(
        self,
        inputs: &[Shape],
        products: f64,
    ) -> Option<KernelUse> {
        let [rows, positions] = sizes(inputs);
        // As if packed rows were equally long.
        let keys = if self.is_packed { inputs[0].dims[0] / rows.max(1) } else { positions };
        let flops = products * 2.0 * (inputs[0].element_count() * keys) as f64;
        let AttentionSpec { num_heads, scale, dropout } = self.spec;
        let attributes = format!(
            "causal = {}, dropout = {}, heads = {}, packed = {}, scale = {}",
            flag(self.is_causal),
            number(dropout),
            integer(num_heads),
            flag(self.is_packed),
            number(scale)
        );
        let has_kernel = self.has_kernel(inputs, Kernels::Own);
        has_kernel.then(|| KernelUse::of::<K>(attributes).with_flops(flops))
    }
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
        Ok(self.expand_all(inputs)?.remove(0))
    }

    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        match self.0 {
            call if call.is_packed => Ok(call.packed_forward(inputs)?.into()),
            call if call.is_cudnn(inputs) => Ok(call.cudnn_forward(inputs)?.into()),
            call => Ok(call.forward(inputs)?.into()),
        }
    }

    /// Scores and shares.
    fn workspace(&self, inputs: &[Shape]) -> usize {
        self.0.score_bytes(inputs, 2)
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        self.0.kernel_use::<AttentionForward>(inputs, 2.0)
    }

    fn has_kernel(&self, inputs: &[Shape], kernels: Kernels) -> bool {
        self.0.has_kernel(inputs, kernels)
    }

    fn kernel_workspace(&self, inputs: &[Shape], kernels: Kernels) -> usize {
        self.0.bias_bytes(inputs, kernels)
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

    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        match self.0 {
            call if call.is_packed => call.packed_backward(inputs),
            call if call.is_cudnn(inputs) => call.cudnn_backward(inputs),
            call => call.backward(inputs),
        }
    }

    /// Scores and shares, and the gradients of both.
    fn workspace(&self, inputs: &[Shape]) -> usize {
        self.0.score_bytes(inputs, 4)
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        self.0.kernel_use::<AttentionBackward>(inputs, 5.0)
    }

    fn has_kernel(&self, inputs: &[Shape], kernels: Kernels) -> bool {
        self.0.has_kernel(inputs, kernels)
    }

    fn kernel_workspace(&self, inputs: &[Shape], kernels: Kernels) -> usize {
        self.0.bias_bytes(inputs, kernels)
    }
}
