//! Multi-head attention (Vaswani et al. 2017): scaled scores plus an additive mask,
//! softmax, dropout, weighted values. Scores and softmax are float32 whatever the operands
//! are.
//!
//! B rows, S positions, N heads of queries, K of keys and values, D head size.

mod block;
mod cudnn;

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

/// Which keys the queries see.
#[derive(Clone, Copy, Debug)]
pub struct VisibleKeys<'a> {
    /// The mask that is added to the scores, f32`[B, 1, 1 or S, S]`.
    pub mask: &'a Tensor,
    /// The first key that each query of causal attention sees, s32`[B, S]`; the last one is at the
    /// query's own position, which it sees always.
    pub starts: Option<&'a Tensor>,
}

/// The settings of a recorded attention, and its operands besides queries, keys, values and mask.
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

    fn has_kernel(self, inputs: &[Shape], kernels: Kernels) -> bool {
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
        4 + usize::from(self.is_causal) + usize::from(self.spec.dropout > 0.0)
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
        let flops = products * 2.0 * (inputs[0].element_count() * sizes(inputs)[1]) as f64;
        let AttentionSpec { num_heads, scale, dropout } = self.spec;
        let attributes = format!(
            "causal = {}, dropout = {}, heads = {}, scale = {}",
            flag(self.is_causal),
            number(dropout),
            integer(num_heads),
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
        match self.0.is_cudnn(inputs) {
            true => Ok(self.0.cudnn_forward(inputs)?.into()),
            false => Ok(self.0.forward(inputs)?.into()),
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
        match self.0.is_cudnn(inputs) {
            true => self.0.cudnn_backward(inputs),
            false => self.0.backward(inputs),
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
