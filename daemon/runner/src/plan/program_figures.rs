//! The costs of a program that is recorded whole.

use traind_xla::analysis::Collective;
use traind_xla::runtime::{RecordedStep, Recorder};
use traind_xla::verify::neuron::{Finding, Instructions};

use super::declared::{CheckedProgram, Declared};
use crate::error::RunResult;
use crate::step::ProgramShape;

/// The costs of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProgramFigures {
    /// Bytes besides variables.
    pub bytes: u64,
    /// The bytes of them that a forward pass keeps for its backward pass.
    pub kept_bytes: u64,
    /// Each with how often it is in the program.
    pub collectives: Vec<(Collective, u64)>,
    /// Operations that Neuron's compiler computes in another type.
    pub warnings: Vec<Finding>,
    /// Instructions of Neuron's compiler.
    pub instructions: Instructions,
}

/// Estimates what a program takes that is recorded whole.
pub(super) fn estimated(declared: &Declared, shape: ProgramShape) -> RunResult<ProgramFigures> {
    let CheckedProgram { recorder, step, warnings, instructions } = declared.record(shape)?;
    let (bytes, kept_bytes) = (estimated_bytes(recorder, &step), step.kept_bytes());
    let collectives = counted(step.collectives());
    Ok(ProgramFigures { bytes, kept_bytes, collectives, warnings, instructions })
}

/// The bytes that a program takes besides variables, by its graph.
pub(super) fn estimated_bytes(recorder: &Recorder, step: &RecordedStep) -> u64 {
    let memory = recorder.memory(step);
    step.input_bytes() + memory.outputs + memory.temporaries
}

/// Different collectives, each with how often it is among `all`.
pub(super) fn counted(all: Vec<Collective>) -> Vec<(Collective, u64)> {
    let mut found: Vec<(Collective, u64)> = Vec::new();
    for collective in all {
        match found.iter_mut().find(|(other, _)| *other == collective) {
            Some((_, count)) => *count += 1,
            None => found.push((collective, 1)),
        }
    }
    found
}
