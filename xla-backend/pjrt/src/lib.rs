//! A safe binding of the PJRT C API: the one way in which traind reaches devices,
//! and the only crate with `unsafe` code.
//!
//! ```no_run
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

mod analysis;
mod api_version;
mod arguments;
mod buffer;
mod capabilities;
mod client;
mod compile_options;
mod compiled_program;
mod create_options;
mod device;
mod device_record;
mod device_to_host;
mod dtype;
mod error;
mod event;
mod executable;
mod execute;
mod ffi;
mod handle;
mod host_to_device;
mod installed;
mod memory;
mod memory_record;
mod optimized_program;
mod plugin;
mod topology;
mod value;

pub use analysis::CompiledMemoryStats;
pub use api_version::ApiVersion;
pub use buffer::Buffer;
pub use capabilities::Capabilities;
pub use client::Client;
pub use compile_options::{CompileOptions, OptionOverride};
pub use compiled_program::CompiledProgram;
pub use create_options::CreateOptions;
pub use device::{Device, DeviceMemoryStats};
pub use device_to_host::HostCopy;
pub use dtype::{DType, Element, Shape};
pub use error::{Error, ErrorCode, Result};
pub use event::Event;
pub use executable::Executable;
pub use execute::{DeviceOutputs, ExecuteOptions};
pub use installed::{installed_plugin, plugin_variable};
pub use memory::{BufferPlacement, Memory};
pub use optimized_program::{Instruction, OptimizedProgram};
pub use plugin::{API_VERSION, NEURON_API_VERSION_VARIABLE, Plugin};
pub use topology::{Topology, TopologyDevice};
pub use value::{Attributes, Value};
