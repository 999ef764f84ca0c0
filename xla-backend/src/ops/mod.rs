//! Operations. Each file holds one operation or one family that shares its
//! rules: the [`Tensor`](crate::Tensor) method, the shape rule, the gradient
//! rule and the StableHLO lowering stand side by side. A new operation is a
//! new file, a line below, and a row in the gradient table of the tests.

use crate::graph::Shape;

mod accumulate;
mod activation;
mod adamw;
mod add_bf16_product;
mod argmax;
mod attention;
mod barrier;
mod bf16_product;
mod biased_product;
mod binary;
mod broadcast;
mod collectives;
mod column_sums;
mod compare;
mod composite;
mod concatenate;
mod constant;
mod convert;
mod cross_entropy;
mod dot_general;
mod dropout;
mod dynamic_slice;
mod gated;
mod iota;
mod layer_norm;
mod matmul;
mod norm;
mod pad;
mod part;
mod place_rows;
pub mod random;
mod reduce;
mod reshape;
mod reverse;
mod rotary;
mod scatter_add;
mod select;
mod sharded_adamw;
mod slice;
mod softmax;
mod square_sum;
mod table_of_rows;
mod take;
mod take_along_axis;
mod transpose;
mod unary;

pub use crate::graph::{Op, Participants, Problem, ResultStorage};
pub use crate::stablehlo::Lower;
pub use crate::tensor::{Backward, Operation};
pub use adamw::{AdamWScalars, AdamWUpdate};
pub use attention::{AttentionSpec, LONG_ROW, PackedRows, VisibleKeys};
pub use collectives::{ReduceKind, ShardGroups};
pub use dot_general::DotDims;
pub use gated::Gate;
pub use random::Random;
pub use sharded_adamw::ShardHolders;

/// Every operation by name. The verifier refuses others, and the tests hold a
/// gradient to be checked for each.
pub const NAMES: &[&str] = &[
    "abs",
    "adamw",
    "add",
    "add_bf16_product",
    "add_product",
    "add_square_sums",
    "all_gather",
    "all_reduce",
    "all_reduce_hosts",
    "all_to_all",
    "and",
    "attention",
    "attention_gradient",
    "bf16_product",
    "biased_product",
    "bitcast_convert",
    "broadcast_in_dim",
    "collective_permute",
    "column_sums",
    "compare",
    "concatenate",
    "constant",
    "convert",
    "cosine",
    "cross_entropy",
    "cross_entropy_gradient",
    "divide",
    "dot_general",
    "dropout",
    "dropout_keys",
    "dynamic_place",
    "dynamic_slice",
    "erf",
    "exponential",
    "fan_out",
    "floor",
    "gated",
    "gated_gradient",
    "gelu",
    "gelu_gradient",
    "gelu_tanh",
    "iota",
    "is_finite",
    "log",
    "log_plus_one",
    "log_softmax",
    "logistic",
    "logsumexp",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "norm",
    "norm_gradient",
    "not",
    "optimization_barrier",
    "or",
    "pad",
    "parameter",
    "part",
    "place_rows",
    "power",
    "reduce_max",
    "reduce_min",
    "reduce_scatter",
    "reduce_sum",
    "relu",
    "remainder",
    "reshape",
    "reverse",
    "rms_standardize",
    "rotary",
    "rsqrt",
    "scatter_add",
    "select",
    "shard_sums",
    "sharded_adamw",
    "shift_left",
    "shift_right_logical",
    "sign",
    "silu",
    "sine",
    "slice",
    "softmax",
    "splat",
    "sqrt",
    "square_sum",
    "square_sum_of_rows",
    "standardize",
    "stop_gradient",
    "subtract",
    "sum_together",
    "table_of_rows",
    "take",
    "tanh",
    "transpose",
    "withhold",
    "xor",
];

/// The inputs as an array, for shape rules of a fixed number of operands.
fn operands<const N: usize>(inputs: &[Shape]) -> Result<&[Shape; N], Problem> {
    inputs.try_into().map_err(|_| format!("takes {N} operands, got {}", inputs.len()).into())
}

fn check_axis(axis: usize, shape: &Shape) -> Result<(), Problem> {
    if axis < shape.rank() {
        return Ok(());
    }
    Err(format!("{shape} has no axis {axis}").into())
}

fn check_axes(axes: &[usize], shape: &Shape) -> Result<(), Problem> {
    for (place, &axis) in axes.iter().enumerate() {
        check_axis(axis, shape)?;
        if axes[..place].contains(&axis) {
            return Err(format!("axis {axis} is named twice").into());
        }
    }
    Ok(())
}

fn check_float(shape: &Shape) -> Result<(), Problem> {
    if shape.dtype.is_float() {
        return Ok(());
    }
    Err(format!("{} is not a floating-point dtype", shape.dtype).into())
}
