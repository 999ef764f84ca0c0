//! Records and compiles a program, and reports it.

use std::sync::Arc;

use traind_xla::runtime::{RecordedStep, Recorder};

use super::device::{CompiledProgram, ProgramCompiler};
use super::{CompiledReport, Observer, ProgramDescription};
use crate::error::{Error, Result};
use crate::step::{JobPrograms, ProgramShape};

pub(super) struct ProgramBuilder<C> {
    /// The compiler of each stage of this host.
    pub compilers: Vec<C>,
    pub programs: Arc<JobPrograms>,
    pub observer: Arc<dyn Observer>,
}

/// A program, as it was recorded and compiled.
pub(super) struct Built<S> {
    pub compiled: CompiledProgram<S>,
    description: ProgramDescription,
}

impl<C: ProgramCompiler> ProgramBuilder<C> {
    /// Compiles a program.
    pub(super) fn build(&self, shape: ProgramShape) -> Result<Built<C::Step>> {
        let compiler = &self.compilers[self.programs.stage_of(&shape) - self.programs.stages.start];
        let recorder = compiler.recorder();
        let recorded = self.programs.record(recorder, shape)?;
        let description = describe(shape.key(), recorder, &recorded);
        Ok(Built { compiled: compiler.compile(recorded)?, description })
    }

    /// Reports a compiled program. `ahead`: no step after the first waited for it.
    pub(super) fn report(
        &self,
        shape: ProgramShape,
        built: &Built<C::Step>,
        ahead: bool,
    ) -> Result<()> {
        let Built { compiled, description } = built;
        let CompiledProgram { seconds, source, flops, memory, .. } = *compiled;
        let (text, kernel_sites) = (&compiled.text[..], &compiled.kernel_sites[..]);
        let warnings = &compiled.warnings[..];
        let report = CompiledReport {
            shape,
            description,
            seconds,
            source,
            ahead,
            text,
            kernel_sites,
            warnings,
            flops,
            memory,
        };
        self.observer.program_compiled(&report).map_err(Error::Observer)
    }
}

/// Describes a step before it is compiled.
fn describe(name: String, recorder: &Recorder, step: &RecordedStep) -> ProgramDescription {
    ProgramDescription {
        name,
        mesh: recorder.mesh().clone(),
        arguments: step.arguments(),
        results: step.results(),
        collectives: step.collectives(),
        planned_temporary_bytes: recorder.memory(step).temporaries,
    }
}
