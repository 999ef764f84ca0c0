//! The costs of compiled programs.

use traind_models::flops;

use super::Work;
use super::device::CompiledProgram;
use crate::step::Program;

/// The costs of a compiled program on each core.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramCosts {
    pub(super) work: Work,
    pub(super) temporary_bytes: u64,
    pub(super) code_bytes: u64,
}

impl ProgramCosts {
    /// `forward`: FLOPs of the program's forward pass; `frozen`: those of a pass without gradients besides.
    pub(super) fn of<S>(
        compiled: &CompiledProgram<S>,
        program: Program,
        forward: f64,
        frozen: f64,
    ) -> ProgramCosts {
        let trains = program.computes_gradients();
        let model = frozen + if trains { flops::training(forward) } else { forward };
        let memory = compiled.memory.unwrap_or_default();
        ProgramCosts {
            work: Work { executed: compiled.flops, model, sent: compiled.sent },
            temporary_bytes: memory.temporary_bytes,
            code_bytes: memory.code_bytes,
        }
    }
}
