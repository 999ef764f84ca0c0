//! Records and compiles a program, and reports it.

use std::sync::Arc;

use traind_loader::BatchAxis;
use traind_proto::v1::Compiled;
use traind_proto::v1::event::Kind;

use super::device::{CompiledProgram, ProgramCompiler};
use super::program_files::{self, ProgramFiles};
use crate::control::Reporter;
use crate::error::RunResult;
use crate::step::{JobPrograms, ProgramShape};

pub(super) struct ProgramBuilder<C> {
    /// The compiler of each stage of this host.
    pub compilers: Vec<C>,
    pub programs: Arc<JobPrograms>,
    pub reporter: Reporter,
    pub files: ProgramFiles,
}

impl<C: ProgramCompiler> ProgramBuilder<C> {
    /// Compiles a program and writes its files.
    pub(super) fn build(&self, shape: ProgramShape) -> RunResult<CompiledProgram<C::Step>> {
        let compiler = &self.compilers[self.programs.stage_of(&shape) - self.programs.stages.start];
        let recorder = compiler.recorder();
        let recorded = self.programs.record(recorder, shape)?;
        let description = program_files::describe(shape.key(), recorder, &recorded);
        let compiled = compiler.compile(recorded)?;
        self.files.write(description, &compiled);
        Ok(compiled)
    }

    /// Records the event of a compiled program. `ahead`: no step after the first waited for it.
    pub(super) fn report(
        &self,
        shape: ProgramShape,
        compiled: &CompiledProgram<C::Step>,
        ahead: bool,
    ) -> RunResult<()> {
        Ok(self.reporter.journal.record(Kind::Compiled(Compiled {
            program: shape.program.name().to_owned(),
            bucket_length: shape.sizes.get(BatchAxis::Positions) as u32,
            batch: shape.sizes.rows() as u32,
            seconds: compiled.seconds,
            source: compiled.source.into(),
            ahead,
        }))?)
    }
}
