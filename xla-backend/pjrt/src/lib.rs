//! A safe binding of the PJRT C API: the one way in which traind reaches devices,
//! and the crate with nearly all `unsafe` code.
//!
//! ```
//! use traind_pjrt::{Client, CreateOptions, CompileOptions, ExecuteOptions, Plugin};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = traind_pjrt::installed_plugin("cpu").ok_or("run `traind plugins install cpu`")?;
//! let options = CreateOptions::new().with("cpu_device_count", 2);
//! let client = Client::new(Plugin::load(path)?, &options)?;
//! let program = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
//!   %y = stablehlo.add %x, %x : tensor<2xf32>
//!   return %y : tensor<2xf32>
//! }";
//! let executable = client.compile(program, &CompileOptions::default())?;
//! let device = client.device(0).ok_or("no device")?;
//! let x = client.buffer_from_slice(&[1.0f32, 2.0], &[2], &device)?;
//! let outputs = executable.execute(&[[&x]], &ExecuteOptions::default())?;
//! assert_eq!(outputs[0].buffers[0].to_vec::<f32>()?, [2.0, 4.0]);
//! # Ok(())
//! # }
//! ```
//!
//! All types are `Send` and `Sync`, free what they own, and keep their client.

#![warn(missing_docs)]

mod api_version;
mod buffer;
mod capabilities;
mod client;
mod create_options;
mod denormals;
mod device;
mod dtype;
mod error;
mod event;
mod ffi;
mod handle;
mod installed;
mod kernel;
mod key_value_store;
mod memory;
mod plugin;
mod probe;
mod program;
mod records;
mod topology;
mod value;

pub use api_version::ApiVersion;
pub use buffer::{Buffer, HostCopy};
pub use capabilities::Capabilities;
pub use client::Client;
pub use create_options::CreateOptions;
pub use denormals::flush_to_zero;
pub use device::{Device, DeviceMemoryStats};
pub use dtype::{DType, Element, Shape};
pub use error::{Error, ErrorCode, Result};
pub use event::Event;
/// The names of the entries of the function table in order, with the sizes of their arguments, and those of structures
/// that arguments point to: for a plugin that checks them.
pub use ffi::{STRUCTURES, TABLE as FUNCTION_TABLE};
pub use installed::{cache_dir, installed_folder, installed_plugin, plugin_variable};
pub use kernel::{
    CALL_NUMBER, DeferredCall, DeferredKernel, Kernel, KernelCall, KernelError, KernelTime,
    KernelTimes, RecordedTimes, UpdatedArrays, WrittenArrays,
};
pub use key_value_store::{KeyValueStore, StoreError};
pub use memory::{BufferPlacement, Memory};
pub use plugin::{API_VERSION, NEURON_API_VERSION_VARIABLE, Plugin};
pub use program::{
    CompileOptions, CompiledMemoryStats, CompiledProgram, DeviceOutputs, Executable,
    ExecuteOptions, Instruction, OptimizedProgram, OptionOverride,
};
pub use records::JobDevice;
pub use topology::{Topology, TopologyDevice};
pub use value::{Attributes, Value};
