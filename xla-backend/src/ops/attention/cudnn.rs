//! Attention as cuDNN computes it on GPUs: in one pass over blocks of keys, so that memory never holds the scores.
//!
//! XLA's CUDA plugin executes such calls, but writes none: a program has to contain them. They are those of JAX's
//! `dot_product_attention` (`scripts/fixtures/cudnn_attention.py`). What is around a call here makes masks a bias of
//! the scores, and statistics the logarithm of the sum of exponentials.
//!
//! B rows, S positions, N heads of queries, K of keys and values, D head size.

use serde_json::json;

use super::block::{gathered_dims, join_heads, repeated, scores_dims, weighted_dims};
use super::{Call, sizes};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::{Kernels, LibraryCall};
use crate::ops::composite::Composite;
use crate::ops::{Problem, ResultStorage};
use crate::tensor::Tensor;

/// The largest head that cuDNN's attention takes, and what heads are a multiple of.
const HEAD_SIZE_MAX: usize = 128;
const HEAD_SIZE_UNIT: usize = 8;

/// [B, N, S, D] as the calls give it: in memory it is [B, S, N, D].
const BY_POSITION: [usize; 4] = [3, 1, 2, 0];

/// Queries [B, S, N, D], keys and values [B, S, K, D], bias [B, 1, S, S] give [B, N, S, D] and, as a second result, the
/// logarithm of each query's sum of exponentials f32[B, N, S].
#[derive(Clone, Copy, Debug)]
struct Fused(Options);

/// Queries, keys, values, logarithms f32[B, N, S], cotangent [B, S, N, D], bias and output [B, S, N, D] give the
/// gradients of queries [B, N, S, D], keys and values [B, K, S, D].
#[derive(Clone, Copy, Debug)]
struct FusedGradient(Options);

#[derive(Clone, Copy, Debug)]
struct Options {
    scale: f64,
    is_causal: bool,
}

/// Whether cuDNN computes attention of these queries [B, S, N, D] without dropout.
pub(super) fn takes(query: &Shape) -> bool {
    let &[_, positions, _, size] = &query.dims[..] else { return false };
    matches!(query.dtype, DType::BF16 | DType::F16)
        && (HEAD_SIZE_UNIT..=HEAD_SIZE_MAX).contains(&size)
        && size.is_multiple_of(HEAD_SIZE_UNIT)
        // As a bias needs for its gradient.
        && positions.is_multiple_of(2)
}

impl Call {
    /// Traces both results by cuDNN.
    pub(super) fn cudnn_forward(self, inputs: &[Tensor]) -> Result<[Tensor; 2]> {
        let [query, key, value] = [0, 1, 2].map(|index| self.heads_of(&inputs[index], inputs));
        let (query, bias) = (query?, self.bias(inputs)?);
        let output = query.apply(Fused(self.options()), &[&key?, &value?, &bias])?;
        let logarithms = output.part(1, logarithms_shape(query.shape()))?.unsqueeze(2)?;
        // The largest score and the sum of exponentials below it, of which only the logarithm of all is known.
        let ones = query.trace().scalar(1.0, DType::F32)?.broadcast_to(logarithms.dims())?;
        let statistics = query.trace().concatenate(&[&logarithms, &ones], 2)?;
        Ok([join_heads(&output)?.reshape(inputs[0].dims())?, statistics])
    }

    /// The gradients of query, key and value, by cuDNN.
    pub(super) fn cudnn_backward(self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [output, statistics, cotangent] =
            [0, 1, 2].map(|index| &inputs[self.operand_count() + index]);
        let [largest, sums] = [0, 1].map(|index| statistics.slice(2, index, index + 1));
        let logarithms = largest?.add(&sums?.log()?)?.squeeze(2)?;
        let split = |x: &Tensor| self.heads_of(x, inputs);
        let bias = self.bias(inputs)?;
        let [key, value, cotangent, output] =
            [split(&inputs[1])?, split(&inputs[2])?, split(cotangent)?, split(output)?];
        let operands = [&key, &value, &logarithms, &cotangent, &bias, &output];
        let query = split(&inputs[0])?.apply(FusedGradient(self.options()), &operands)?;
        let of_keys = |index| query.part(index, by_head(key.shape()));
        let gradients = [query.clone(), of_keys(1)?, of_keys(2)?];
        let joined =
            |(gradient, input): (&Tensor, &Tensor)| join_heads(gradient)?.reshape(input.dims());
        gradients.iter().zip(inputs).map(joined).collect()
    }

    /// The bytes of what is added to the scores.
    pub(super) fn bias_bytes(self, inputs: &[Shape], kernels: Kernels) -> usize {
        let [rows, positions] = sizes(inputs);
        match kernels {
            Kernels::CudnnAttention => inputs[0].dtype.size_bytes() * rows * positions * positions,
            Kernels::None | Kernels::Own => 0,
        }
    }

    fn options(self) -> Options {
        Options { scale: self.spec.scale, is_causal: self.is_causal }
    }

    /// [B S, N D] or [B S, K D] to [B, S, N or K, D].
    fn heads_of(self, x: &Tensor, inputs: &[Tensor]) -> Result<Tensor> {
        let shapes = [0, 1, 2, 3].map(|index| inputs[index].shape().clone());
        let ([rows, positions], size) = (sizes(&shapes), inputs[0].dims()[1] / self.spec.num_heads);
        x.reshape(&[rows, positions, x.dims()[1] / size, size])
    }

    /// The addend of the scores, [B, 1, S, S]: the mask and, in causal attention, what hides keys before the first
    /// visible one. It is finite, since cuDNN subtracts hidden scores from each other.
    fn bias(self, inputs: &[Tensor]) -> Result<Tensor> {
        let (mask, dtype) = (&inputs[3], inputs[0].dtype());
        let (rows, positions) = (mask.dims()[0], mask.dims()[3]);
        let square = [rows, 1, positions, positions];
        let (trace, hidden) = (mask.trace(), hidden_score(dtype));
        let mask = mask.broadcast_to(&square)?.convert(DType::F32)?;
        let mask = mask.maximum(&trace.scalar(hidden, DType::F32)?.broadcast_to(&square)?)?;
        let mask = match inputs.get(4).filter(|_| self.is_causal) {
            None => mask,
            Some(starts) => {
                let query = trace.iota(DType::S32, &square, 2)?;
                let start = starts.reshape(&[rows, 1, positions, 1])?.broadcast_to(&square)?;
                let visible = start.minimum(&query)?.le(&trace.iota(DType::S32, &square, 3)?)?;
                visible.select(&mask, &trace.scalar(hidden, DType::F32)?)?
            }
        };
        mask.convert(dtype)
    }
}

/// A score that gives no share: as large as half precision and a difference of two such scores permit.
fn hidden_score(dtype: DType) -> f64 {
    if dtype == DType::F16 { -32768.0 } else { -2_199_023_255_552.0 }
}

fn logarithms_shape(query: &Shape) -> Shape {
    Shape::new(DType::F32, [query.dims[0], query.dims[2], query.dims[1]])
}

/// [B, S, N, D] to [B, N, S, D].
fn by_head(x: &Shape) -> Shape {
    x.with_dims([x.dims[0], x.dims[2], x.dims[1], x.dims[3]])
}

impl Options {
    /// Scaled scores with the bias, [B, N, S, S].
    fn scores(self, query: &Tensor, key: &Tensor, bias: &Tensor) -> Result<Tensor> {
        let scores = query.dot_general(key, scores_dims())?.widen()?.mul_scalar(self.scale)?;
        let scores = scores.add(&bias.convert(scores.dtype())?)?;
        if !self.is_causal {
            return Ok(scores);
        }
        let trace = scores.trace();
        let iota = |axis| trace.iota(DType::S32, scores.dims(), axis);
        let never = trace.scalar(f64::NEG_INFINITY, scores.dtype())?;
        iota(3)?.le(&iota(2)?)?.select(&scores, &never)
    }

    /// The call for queries [B, S, N, D] that multiplies `products`.
    fn call(self, target: &'static str, query: &Shape, products: &[Product]) -> LibraryCall {
        let &[rows, positions, heads, _] = &query.dims[..] else {
            unreachable!("the shape rule has accepted four axes")
        };
        let scores = [rows, heads, positions, positions];
        let mut attention = json!({
            "algorithm": {
                "algo_id": "0",
                "math_type": "TENSOR_OP_MATH",
                "tuning_knobs": {"17": "1", "24": "0"},
                "is_cudnn_frontend": true,
                "workspace_size": "0",
            },
            "fmha_scale": self.scale,
            "dropout_rate": 0.0,
            "seed": 42,
            "is_flash_attention": true,
            "is_paged_attention": false,
            "mask_type": if self.is_causal { "CAUSAL" } else { "NO_MASK" },
            "sliding_window_length": 0,
            "max_seg_per_batch": 1,
            "intermediate_tensor_shape": {
                "element_type": if query.dtype == DType::F16 { "F16" } else { "BF16" },
                "dimensions": texts(&scores),
                "tuple_shapes": [],
                "layout": {
                    "dim_level_types": [],
                    "dim_unique": [],
                    "dim_ordered": [],
                    "minor_to_major": texts(&[3, 2, 1, 0]),
                    "tiles": [],
                    "element_size_in_bits": "0",
                    "memory_space": "0",
                    "index_primitive_type": "PRIMITIVE_TYPE_INVALID",
                    "pointer_primitive_type": "PRIMITIVE_TYPE_INVALID",
                    "dynamic_shape_metadata_prefix_bytes": "0",
                },
                "is_dynamic_dimension": [false, false, false, false],
            },
        });
        for product in products {
            attention[product.name] = product.dimension_numbers();
        }
        let config = json!({
            "operation_queue_id": "0",
            "cudnn_fmha_backend_config": attention,
        });
        let flops = 2.0 * (query.element_count() * positions) as f64 * products.len() as f64;
        LibraryCall::new(target, config.to_string()).with_flops(flops)
    }
}

/// A product within a call, of operands of four axes.
struct Product {
    name: &'static str,
    contracting: [usize; 2],
    lhs_batch: [usize; 2],
    rhs_batch: [usize; 2],
}

const FORWARD: [Product; 2] = [
    Product::new("bmm1_dot_dimension_numbers", [3, 3], [0, 2], [0, 2]),
    Product::new("bmm2_dot_dimension_numbers", [3, 1], [0, 1], [0, 2]),
];

const BACKWARD: [Product; 4] = [
    Product::new("bmm1_grad_gemm1_dot_dimension_numbers", [2, 1], [0, 1], [0, 2]),
    Product::new("bmm1_grad_gemm2_dot_dimension_numbers", [3, 1], [0, 1], [0, 2]),
    Product::new("bmm2_grad_gemm1_dot_dimension_numbers", [2, 1], [0, 1], [0, 2]),
    Product::new("bmm2_grad_gemm2_dot_dimension_numbers", [3, 3], [0, 2], [0, 2]),
];

impl Product {
    const fn new(
        name: &'static str,
        contracting: [usize; 2],
        lhs_batch: [usize; 2],
        rhs_batch: [usize; 2],
    ) -> Product {
        Product { name, contracting, lhs_batch, rhs_batch }
    }

    fn dimension_numbers(&self) -> serde_json::Value {
        json!({
            "lhs_contracting_dimensions": texts(&self.contracting[..1]),
            "rhs_contracting_dimensions": texts(&self.contracting[1..]),
            "lhs_batch_dimensions": texts(&self.lhs_batch),
            "rhs_batch_dimensions": texts(&self.rhs_batch),
        })
    }
}

/// 64-bit integers, as JSON of protocol buffers has them.
fn texts(numbers: &[usize]) -> Vec<String> {
    numbers.iter().map(usize::to_string).collect()
}

/// B, S, N and D of queries.
fn of_queries(query: &Tensor) -> [usize; 4] {
    [0, 1, 2, 3].map(|axis| query.dims()[axis])
}

/// The sum over the queries that share a key: [B, N, S, D] to [B, K, S, D].
fn shared(x: &Tensor, keys: usize) -> Result<Tensor> {
    let &[rows, heads, positions, size] = x.dims() else { return Ok(x.clone()) };
    x.reshape(&[rows, keys, heads / keys, positions, size])?.sum(&[2])
}

impl Composite for Fused {
    fn name(&self) -> &'static str {
        "cudnn_attention"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        match inputs {
            [query, _, _, _] if query.rank() == 4 => Ok(by_head(query)),
            _ => Err("takes queries [B, S, N, D], keys, values and a bias".into()),
        }
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        Ok(self.expand_all(inputs)?.remove(0))
    }

    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [query, key, value, bias] = inputs else { return Ok(Vec::new()) };
        let heads = of_queries(query);
        let (key, value) = (repeated(key, heads)?, repeated(value, heads)?);
        let scores = self.0.scores(query, &key, bias)?;
        let largest = scores.max_keep(&[3])?;
        let logarithms = scores.sub(&largest)?.exp()?.sum_keep(&[3])?.log()?.add(&largest)?;
        let shares = scores.sub(&logarithms)?.exp()?.convert(value.dtype())?;
        let output = shares.dot_general(&value, weighted_dims())?;
        Ok(vec![output, logarithms.squeeze(3)?])
    }

    fn library_call(&self, inputs: &[Shape]) -> Option<LibraryCall> {
        let query = &inputs[0];
        let call = self.0.call("__cudnn$fmhaScaleBiasSoftmax", query, &FORWARD);
        let call = call.with_result(by_head(query), &BY_POSITION);
        Some(call.with_result(logarithms_shape(query), &[2, 1, 0]))
    }
}

impl Composite for FusedGradient {
    fn name(&self) -> &'static str {
        "cudnn_attention_gradient"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        match inputs {
            [query, _, _, _, _, _, _] if query.rank() == 4 => Ok(by_head(query)),
            _ => Err("takes queries [B, S, N, D] and six more operands".into()),
        }
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        Ok(self.expand_all(inputs)?.remove(0))
    }

    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [query, key, value, logarithms, cotangent, bias, output] = inputs else {
            return Ok(Vec::new());
        };
        let (keys, heads) = (key.dims()[2], of_queries(query));
        let (key, value) = (repeated(key, heads)?, repeated(value, heads)?);
        let shares = self.0.scores(query, &key, bias)?.sub(&logarithms.unsqueeze(3)?)?.exp()?;
        let to_shares = cotangent.dot_general(&value, scores_dims())?.widen()?;
        let along = cotangent.widen()?.mul(&output.widen()?)?.sum(&[3])?.swap_axes(1, 2)?;
        let to_scores = to_shares.sub(&along.unsqueeze(3)?)?.mul(&shares)?;
        let to_scores = to_scores.mul_scalar(self.0.scale)?.convert(query.dtype())?;
        let shares = shares.convert(query.dtype())?;
        Ok(vec![
            to_scores.dot_general(&key, weighted_dims())?,
            shared(&to_scores.dot_general(query, gathered_dims())?, keys)?,
            shared(&shares.dot_general(cotangent, gathered_dims())?, keys)?,
        ])
    }

    fn library_call(&self, inputs: &[Shape]) -> Option<LibraryCall> {
        let [query, key] = [&inputs[0], &inputs[1]];
        let call = self.0.call("__cudnn$fmhaScaleBiasSoftmaxBackward", query, &BACKWARD);
        let call = call.with_result(by_head(query), &BY_POSITION);
        let call = call.with_result(by_head(key), &BY_POSITION);
        Some(call.with_result(by_head(key), &BY_POSITION))
    }
}

#[cfg(test)]
mod tests {
    use traind_pjrt::{Buffer, Client, CompileOptions, CreateOptions, ExecuteOptions, Plugin};

    use super::*;
    use crate::ops::AttentionSpec;
    use crate::stablehlo::{DotPrecision, Output, lower};
    use crate::tensor::Trace;

    const ROWS: usize = 2;
    const POSITIONS: usize = 6;
    const HEADS: usize = 4;
    const SIZE: usize = 8;

    /// Numbers between -1 and 1 that look random.
    fn numbers(trace: &Trace, dims: &[usize], seed: f64) -> Tensor {
        let count = dims.iter().product();
        let count = trace.iota(DType::F32, &[count], 0).unwrap();
        count.mul_scalar(seed).unwrap().sin().unwrap().reshape(dims).unwrap()
    }

    /// Queries, keys, values and a mask in which the last two positions of each row are hidden; in causal attention,
    /// the third position begins a text.
    fn operands(trace: &Trace, call: Call, keys: usize) -> Vec<Tensor> {
        let tokens = ROWS * POSITIONS;
        let of_heads = |heads, seed| numbers(trace, &[tokens, heads * SIZE], seed);
        let position = trace.iota(DType::S32, &[ROWS, 1, 1, POSITIONS], 3).unwrap();
        let last = trace.scalar((POSITIONS - 3) as f64, DType::S32).unwrap();
        let [seen, hidden] = [0.0, f64::from(f32::MIN)].map(|it| trace.scalar(it, DType::F32));
        let all = |x: Tensor| x.broadcast_to(position.dims()).unwrap();
        let is_seen = position.le(&all(last)).unwrap();
        let mask = is_seen.select(&all(seen.unwrap()), &all(hidden.unwrap())).unwrap();
        let mut operands =
            vec![of_heads(HEADS, 1.7), of_heads(keys, 2.3), of_heads(keys, 3.1), mask];
        if call.is_causal {
            let query = trace.iota(DType::S32, &[ROWS, POSITIONS], 1).unwrap();
            let start = trace.scalar(2.0, DType::S32).unwrap();
            operands.push(query.minimum(&start.broadcast_to(query.dims()).unwrap()).unwrap());
        }
        operands
    }

    fn evaluate(outputs: &[&Tensor]) -> Vec<Vec<f32>> {
        let plugin = Plugin::load(traind_pjrt::installed_plugin("cpu").unwrap()).unwrap();
        let client = Client::new(plugin, &CreateOptions::new()).unwrap();
        let graph = outputs[0].trace().graph();
        let outputs: Vec<Output> = outputs.iter().map(|it| Output::new(it.node())).collect();
        let program = lower(&graph, "test", &outputs, 1, DotPrecision::Highest);
        let executable = client.compile(&program.text, &CompileOptions::replicas(1)).unwrap();
        let no_arguments: [Vec<Buffer>; 1] = [vec![]];
        let results = executable.execute(&no_arguments, &ExecuteOptions::default()).unwrap();
        let numbers = |bytes: Vec<u8>| -> Vec<f32> {
            bytes.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect()
        };
        results[0].buffers.iter().map(|it| numbers(it.to_bytes().unwrap())).collect()
    }

    /// The call, as it is defined, with what is around it gives what attention is.
    fn check(is_causal: bool, keys: usize) {
        let spec = AttentionSpec { num_heads: HEADS, scale: 0.4, dropout: 0.0 };
        let (trace, call) = (Trace::new(), Call { spec, is_causal, is_packed: false });
        let mut inputs = operands(&trace, call, keys);
        let plain = call.forward(&inputs).unwrap();
        let fused = call.cudnn_forward(&inputs).unwrap();
        inputs.extend([&fused[0], &fused[1]].map(Clone::clone));
        inputs.push(numbers(&trace, inputs[0].dims(), 4.3));
        let expected = [vec![plain[0].clone()], call.backward(&inputs).unwrap()].concat();
        let found = [vec![fused[0].clone()], call.cudnn_backward(&inputs).unwrap()].concat();
        let values = evaluate(&expected.iter().chain(&found).collect::<Vec<_>>());
        let (expected, found) = values.split_at(expected.len());
        for (expected, found) in expected.iter().zip(found) {
            assert_eq!(expected.len(), found.len());
            for (expected, found) in expected.iter().zip(found) {
                // Some roundings of float32 numbers around 1.
                assert!((expected - found).abs() < 2e-6, "{expected} is {found}");
            }
            assert!(expected.iter().any(|it| it.abs() > 0.01));
        }
    }

    #[test]
    fn a_call_in_its_surroundings_is_attention() {
        for is_causal in [false, true] {
            check(is_causal, HEADS);
            check(is_causal, 2);
        }
    }
}
