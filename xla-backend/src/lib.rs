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
//!
//! A step of gradient descent on one core, whose variable keeps its value from step to step:
//!
//! ```
//! use traind_pjrt::{Client, CreateOptions, Plugin};
//! use traind_xla::autodiff::gradients;
//! use traind_xla::kernels::GpuOptions;
//! use traind_xla::mesh::Mesh;
//! use traind_xla::runtime::{HostArray, LazyDevice, LocalCores, Recording};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let plugin = traind_pjrt::installed_plugin("cpu").ok_or("run `traind plugins install cpu`")?;
//! let client = Client::new(Plugin::load(plugin)?, &CreateOptions::new())?;
//! let cores = LocalCores::of_host(client, Mesh::data_parallel(1)?)?;
//! let mut device = LazyDevice::new(cores, None, GpuOptions::default());
//! let weight = device.variable(&HostArray::from_f32(&[2], &[3.0, -1.0])?)?;
//! let step = device.compile(&[], |at: &mut Recording<'_>| -> traind_xla::Result<()> {
//!     let value = at.read(weight)?;
//!     let loss = value.mul(&value)?.sum(&[0])?;
//!     let gradient = &gradients(&loss, &[&value])?[0];
//!     at.assign(weight, &value.sub(&gradient.mul_scalar(0.25)?)?)?;
//!     at.fetch("loss", &loss);
//!     Ok(())
//! })?;
//! device.install("step", step);
//! let loss = device.mark_step("step", &vec![Vec::new()])?.fetch()?.scalar_f32("loss")?;
//! assert_eq!(loss, 10.0);
//! assert_eq!(device.value(weight, 0)?.to_f32()?, [1.5, -0.5]);
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

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
