//! Programs: compile options, compiled programs and what the compiler reports of
//! them, executables on their devices, and execution.
//!
//! Imports the client, its devices, `buffer` and what stands below those.

mod analysis;
mod arguments;
mod compile_options;
mod compiled_program;
mod executable;
mod execute;
mod optimized_program;

pub use analysis::CompiledMemoryStats;
pub use compile_options::{CompileOptions, OptionOverride};
pub use compiled_program::CompiledProgram;
pub(crate) use compiled_program::Source;
pub use executable::Executable;
pub use execute::{DeviceOutputs, ExecuteOptions};
pub use optimized_program::{Instruction, OptimizedProgram};
