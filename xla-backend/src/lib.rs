//! The tensor compiler of traind: a traced graph, its gradient, its StableHLO
//! text, and a lazy device that runs it on every core of a job through PJRT.
//!
//! From the bottom up, each module imports only those before it:
//!
//! - [`DType`], [`Shape`] and [`error`].
//! - [`mesh`]: named axes over cores and the replica groups they give.
//! - [`kernels`]: code of our own that programs call on CPU devices.
//! - [`graph`]: nodes, which know an operation by its shape rule and its use of memory ([`graph::Op`]).
//! - [`stablehlo`]: the text of a program, which operations write with the verbs of an emitter
//!   ([`stablehlo::Lower`]).
//! - [`tensor`]: the handles that models compose. An operation of theirs also has a gradient rule, in tensors
//!   ([`tensor::Operation`]).
//! - [`ops`]: one small file per operation (shape rule, gradient rule, lowering).
//! - [`autodiff`] and [`verify`]: the reverse walk over a graph, and its checks.
//! - [`analysis`]: the memory and the collectives of a program, by its graph.
//! - [`runtime`]: variables, `mark_step`, replay and compile caches.

pub mod analysis;
pub mod autodiff;
mod dtype;
pub mod error;
pub mod graph;
pub mod kernels;
pub mod mesh;
pub mod ops;
pub mod runtime;
mod shape;
pub mod stablehlo;
pub mod tensor;
pub mod verify;

pub use dtype::DType;
pub use error::{Error, Result};
pub use shape::{Dims, Shape};
pub use tensor::{Tensor, Trace};
