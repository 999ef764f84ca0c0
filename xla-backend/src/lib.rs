//! The tensor compiler of traind: a traced graph, its gradient, its StableHLO
//! text, and a lazy device that runs it on every core of a job through PJRT.
//!
//! Layers, each knowing only those above it:
//!
//! - [`graph`]: an arena of nodes with inferred shapes; no device, no text.
//! - [`ops`]: one small file per operation (shape rule, gradient rule, lowering).
//! - [`tensor`]: the handle that model code composes, with broadcasting.
//! - [`autodiff`]: the reverse walk over a graph.
//! - [`stablehlo`]: the text handed to a plugin.
//! - [`mesh`]: named axes over cores and the replica groups they give.
//! - [`runtime`]: variables, `mark_step`, replay and compile caches.

pub mod autodiff;
pub mod error;
pub mod graph;
pub mod mesh;
pub mod ops;
pub mod runtime;
pub mod stablehlo;
pub mod tensor;

pub use error::{Error, Result};
pub use graph::{DType, Shape};
pub use tensor::{Tensor, Trace};
