//! Operations. Each file holds one operation or one family that shares its
//! rules: the [`Tensor`](crate::Tensor) method, the shape rule, the gradient
//! rule and the StableHLO lowering stand side by side. A new operation is a
//! new file, a line below, and a row in the gradient table of the tests.

use std::fmt;

use crate::error::{Error, Result};
use crate::graph::Shape;
use crate::stablehlo::{Emitter, Value};
use crate::tensor::Tensor;

mod activation;
mod argmax;
mod barrier;
mod binary;
mod broadcast;
mod collectives;
mod compare;
mod composite;
mod concatenate;
mod constant;
mod convert;
mod cross_entropy;
mod dot_general;
mod dropout;
mod iota;
mod layer_norm;
mod matmul;
mod pad;
mod parameter;
pub mod random;
mod reduce;
mod reshape;
mod reverse;
mod scatter_add;
mod select;
mod slice;
mod softmax;
mod take;
mod take_along_axis;
mod transpose;
mod unary;

pub use collectives::ReduceKind;
pub use dot_general::DotDims;
pub use parameter::Parameter;
pub use random::Random;

/// Every operation by name. The verifier refuses others, and the tests hold a
/// gradient to be checked for each.
pub const NAMES: &[&str] = &[
    "abs",
    "add",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "and",
    "bitcast_convert",
    "broadcast_in_dim",
    "collective_permute",
    "compare",
    "concatenate",
    "constant",
    "convert",
    "cosine",
    "cross_entropy",
    "divide",
    "dot_general",
    "dropout",
    "erf",
    "exponential",
    "floor",
    "gelu",
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
    "not",
    "optimization_barrier",
    "or",
    "pad",
    "parameter",
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
    "rsqrt",
    "scatter_add",
    "select",
    "shift_left",
    "shift_right_logical",
    "sign",
    "silu",
    "sine",
    "slice",
    "softmax",
    "splat",
    "sqrt",
    "standardize",
    "stop_gradient",
    "subtract",
    "take",
    "tanh",
    "transpose",
    "xor",
];

/// What an operation must say about itself. `Debug` prints its name and its
/// attributes, and two operations that print alike are alike.
pub trait Op: fmt::Debug + Send + Sync + 'static {
    /// The name in messages: StableHLO's where the operation is one of its own.
    fn name(&self) -> &'static str;

    /// The shape of the result, or what is wrong with the inputs.
    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem>;

    /// The cotangent of each input, or `None` where none flows.
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let _ = at;
        Err(Error::NotDifferentiable { op: self.name().to_owned() })
    }

    /// Writes the operation as StableHLO and returns the value of its result.
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value;

    /// Where the result is kept, for a plan of memory.
    fn storage(&self) -> ResultStorage;

    /// Whether its operands have to be in memory: it takes no other operation into itself.
    fn reads_memory(&self) -> bool {
        false
    }

    /// The argument number, for a program parameter.
    fn parameter_index(&self) -> Option<usize> {
        None
    }
}

/// Where the result of an operation is kept, as a plan of memory assumes it before a
/// compiler has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultStorage {
    /// Nowhere: what reads it computes it, or it is there anyhow.
    Fused,
    /// In memory of its own.
    Written,
    /// In that of its first operand, which it shows in another way.
    View,
}

/// Where the reverse walk stands: one node and the cotangent of its result.
#[derive(Debug)]
pub struct Backward<'a> {
    pub inputs: &'a [Tensor],
    pub output: &'a Tensor,
    pub cotangent: &'a Tensor,
}

/// Why a shape rule refuses its inputs; the graph adds operation and shapes.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem(pub String);

impl<T: Into<String>> From<T> for Problem {
    fn from(text: T) -> Problem {
        Problem(text.into())
    }
}

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
