//! The costs of compiled programs.

use traind_pjrt::Executable;

use super::flops;
use crate::control::Work;
use crate::step::Program;

/// The costs of a compiled program on each core.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramCosts {
    pub(super) work: Work,
    pub(super) temporary_bytes: u64,
    pub(super) code_bytes: u64,
}

impl ProgramCosts {
    /// Costs that the plugin does not report are 0.
    pub(super) fn of(
        executable: &Executable,
        program: Program,
        forward_flops: f64,
    ) -> ProgramCosts {
        let memory = executable.program().compiled_memory_stats().ok().flatten();
        let bytes = |bytes: Option<i64>| bytes.and_then(|b| u64::try_from(b).ok()).unwrap_or(0);
        ProgramCosts {
            work: flops::work(executable, forward_flops, program.computes_gradients()),
            temporary_bytes: bytes(memory.map(|memory| memory.temp_bytes)),
            code_bytes: bytes(memory.map(|memory| memory.generated_code_bytes)),
        }
    }
}
