//! The programs of a session: what they do, for which shape each is compiled,
//! and what the compiler tells of it.

use traind_pjrt::Executable;

use crate::control::work::Work;

/// Programs of a session, by what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// A step of one batch.
    Train,
    /// A batch of a step.
    Accumulate,
    /// The end of a step of several batches.
    Update,
    Evaluate,
    /// The same without labels.
    Predict,
}

impl Program {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Program::Train => "train_step",
            Program::Accumulate => "accumulate_step",
            Program::Update => "update_step",
            Program::Evaluate => "eval_step",
            Program::Predict => "predict_step",
        }
    }
}

/// A program and the batch on a core that it is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgramShape {
    pub program: Program,
    pub rows: usize,
    pub positions: usize,
}

impl ProgramShape {
    /// An update takes no batch.
    pub(crate) const UPDATE: ProgramShape =
        ProgramShape { program: Program::Update, rows: 0, positions: 0 };

    pub(crate) fn key(&self) -> String {
        format!("{}-{}x{}", self.program.name(), self.rows, self.positions)
    }
}

/// What the compiler tells of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramFigures {
    pub work: Work,
    pub temporary_bytes: u64,
    pub code_bytes: u64,
}

impl ProgramFigures {
    /// A plugin that does not tell its memory costs people a figure, and no run its end.
    pub(crate) fn of(executable: &Executable, forward_flops: f64, trains: bool) -> ProgramFigures {
        let memory = executable.program().compiled_memory_stats().ok().flatten();
        let bytes = |bytes: Option<i64>| bytes.and_then(|b| u64::try_from(b).ok()).unwrap_or(0);
        ProgramFigures {
            work: Work::of(executable, forward_flops, trains),
            temporary_bytes: bytes(memory.map(|memory| memory.temp_bytes)),
            code_bytes: bytes(memory.map(|memory| memory.generated_code_bytes)),
        }
    }
}
