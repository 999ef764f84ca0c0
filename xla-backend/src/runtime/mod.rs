//! The lazy device: variables that live on the cores, steps that are recorded
//! once and replayed, and `mark_step`, which cuts the recorded graph, finds or
//! compiles its program, runs it on all cores and swaps the donated state.
//!
//! Shapes are known before the first step: [`LazyDevice::compile`] compiles a
//! step ahead, several at once if need be.

mod cache;
mod compiler;
mod cores;
mod device;
mod host;
mod pending;
mod platform;
mod recorder;
mod recording;
mod variable;

pub use cache::ExecutableCache;
pub use compiler::{CompileReport, Compiler, ExecutableSource};
pub use cores::{CoreInputs, JobCores, LocalCores};
pub use device::{CompiledStep, LazyDevice};
pub use host::HostArray;
pub use pending::{Fetched, HandOver, Pending};
pub use platform::with_platform_options;
pub use recorder::{ProgramArgument, RecordedStep, Recorder};
pub use recording::{Recording, StepInput};
pub use variable::Variable;
