//! The lazy device: variables that live on the cores, steps that are recorded
//! once and replayed, and `mark_step`, which cuts the recorded graph, finds or
//! compiles its program, runs it on all cores and swaps the donated state.
//!
//! Shapes are known before the first step, so that threads with a [`StepCompiler`]
//! compile steps ahead of their use while the device runs others.

mod ahead_of_time;
mod cache;
mod compiler;
mod cores;
mod device;
mod donation;
mod gpu_target;
mod host;
mod host_memory;
mod known_answers;
mod packed;
mod pending;
mod platform;
mod recorder;
mod recording;
mod refusals;
mod step_compiler;
mod traits;
mod variable;

pub use ahead_of_time::AheadOfTime;
pub use cache::ExecutableCache;
pub use compiler::{CompileReport, Compiler, ExecutableSource};
pub use cores::{CoreInputs, JobCores, LocalCores};
pub use device::LazyDevice;
pub use donation::donation_outcome;
pub use gpu_target::GpuTarget;
pub use host::HostArray;
pub use host_memory::HostMemory;
pub use known_answers::{CoreAnswer, random_bits_are_exact, test_cores};
pub use packed::pack;
pub use pending::{Fetched, HandOver, Pending};
pub use platform::with_platform_options;
pub use recorder::{ProgramArgument, RecordedStep, Recorder};
pub use recording::{Half, Recording, StepInput};
pub use step_compiler::{CompiledStep, StepCompiler};
pub use traits::DeviceTraits;
pub use variable::Variable;
