//! The tensor compiler of traind: a traced graph, its gradient, its StableHLO
//! text, and a lazy device that runs it on every core of a job through PJRT.
//!
//! The core is [`graph`], [`tensor`] and [`stablehlo`], which refer to each other
//! through one trait: a node of a graph holds an operation ([`graph::Op`]), whose
//! gradient rule is written in tensors, which name nodes, and which lowers itself
//! with the verbs of an emitter. Below it are [`DType`], [`Shape`] and [`error`].
//! Above it, each knowing only what stands before it:
//!
//! - [`mesh`]: named axes over cores and the replica groups they give.
//! - [`kernels`]: code of our own that programs call on CPU devices.
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
