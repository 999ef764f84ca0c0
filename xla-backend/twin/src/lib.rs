//! A twin of AWS Neuron's PJRT plugin, compiler and tools, for tests alone: no package of traind has it.
//!
//! The plugin wraps the CPU plugin and is as strict as the public facts about Neuron's; where those are silent, its
//! behaviour is an [option](Options). The compiler's stand-in checks programs with the verifier and leaves compiling
//! to the CPU plugin.
//!
//! `unsafe` appears in `plugin`, which exports and calls functions of the PJRT C API.

mod compiler;
mod downcast;
mod indices;
mod machine;
mod options;
mod plugin;
mod rewriting;
mod tools;

pub use compiler::neuronx_cc;
pub use machine::Machine;
pub use options::Options;
pub use tools::{neuron_ls, neuron_monitor, write_packages, write_sysfs};
