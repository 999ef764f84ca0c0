//! Codes of the compiler and the runtime, with meanings and remedies, and how they are found in the text of an error.

mod compiler;
mod runtime;
mod search;
mod texts;

pub use compiler::{COMPILER, CompilerCode, WITHOUT_PREFIX};
pub use runtime::{ALLOCATION_FAILED, MEMORY_FULL, RUNTIME, RuntimeCode};
pub use search::{Explanation, explain};

/// Kinds of causes, by what may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The program is too large, or needs too much memory.
    Size,
    /// The program has an operation, a form or a type that the compiler refuses.
    Operation,
    /// The program computes with integers where only floating-point numbers are exact.
    Integers,
    /// An index is outside of a tensor.
    Indices,
    /// A flag, a file or the environment is wrong.
    Setup,
    /// A defect of the compiler or the runtime.
    Defect,
    /// Another process holds what the job needs.
    Busy,
    /// The device, or a link or network between devices.
    Hardware,
    /// The step did not end in time.
    Timeout,
    /// A value is not a number.
    Values,
    /// The memory of the host was full, which other processes use too.
    HostMemory,
    /// The code is not known, and so neither is whether it passes.
    Unknown,
}

impl Cause {
    /// Whether the same job may succeed when it is started again.
    pub fn may_pass(self) -> bool {
        use Cause::{Busy, Hardware, HostMemory, Timeout, Unknown};
        matches!(self, Busy | Hardware | Timeout | HostMemory | Unknown)
    }
}
