//! The arithmetic of CPU devices where XLA's own is slow: functions over slices in
//! host memory, on the calling thread alone. They know neither graphs nor plugins.
//!
//! - [`matrix`]: products of matrices in any layout.
//! - [`bf16`]: products of matrices that are rounded to bfloat16 first.
//! - [`attention`]: attention forward and backward, a head at a time.
//! - [`gelu`]: the activation and its gradient.
//! - [`gated`]: an activation times a factor, and the gradients of both.
//! - [`rotary`]: the rotation of queries and keys by their positions.
//! - [`norm`]: layer norm and its relatives, of a sum with dropout, and their gradients.
//! - [`cross_entropy`]: the loss of classification and its gradient.
//! - [`adamw`]: the update of an optimizer.
//! - [`mod@sum`]: the sum of squares, and the sums of columns.
//! - [`table`]: tables of few rows, the gradients of embeddings.
//! - [`hash`]: the random bits of dropout.
//!
//! Slices of wrong lengths panic: what calls these functions has checked its shapes.

pub mod adamw;
pub mod attention;
pub mod bf16;
pub mod cross_entropy;
pub mod gated;
pub mod gelu;
pub mod hash;
pub mod matrix;
pub mod norm;
pub mod rotary;
pub mod sum;
pub mod table;

mod dispatch;
mod math;
mod scratch;
#[cfg(target_arch = "x86_64")]
mod vector;

/// The version of the kernels' interface, which compiled programs depend on.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "-6");

/// Whether this processor has the instructions that make the kernels fast: fused
/// multiply-add on vectors.
pub fn are_supported() -> bool {
    dispatch::Level::of_processor() != dispatch::Level::Portable
}
