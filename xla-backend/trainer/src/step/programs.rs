//! The programs of a job: their names, and the shapes they are compiled for.

use traind_loader::{BatchAxis, BatchSizes};

/// A kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// A whole step of one batch.
    Train,
    /// The forward pass of a chunk, whose backward pass is a program of its own.
    Forward,
    /// The embeddings of a part of a batch whose rows are compared.
    Embed,
    /// The loss of all parts of such a batch, and its gradients.
    Compare,
    /// One batch of a step of several, through the model or through a chunk of it.
    Accumulate,
    /// The sums of a stage over its cores, of which the update needs those of all stages.
    Reduce,
    /// The end of a step of several batches.
    Update,
    /// Evaluates a batch with labels.
    Evaluate,
    /// An evaluation without labels.
    Predict,
    /// The first pass of generation, over prompts or sources.
    Prefill,
    /// A later pass of generation, over one token of each text.
    Decode,
}

impl Program {
    /// The name in events and files.
    pub fn name(self) -> &'static str {
        match self {
            Program::Train => "train_step",
            Program::Forward => "forward_step",
            Program::Embed => "embed_step",
            Program::Compare => "compare_step",
            Program::Accumulate => "accumulate_step",
            Program::Reduce => "reduce_step",
            Program::Update => "update_step",
            Program::Evaluate => "eval_step",
            Program::Predict => "predict_step",
            Program::Prefill => "prefill_step",
            Program::Decode => "decode_step",
        }
    }

    pub(crate) fn computes_gradients(self) -> bool {
        match self {
            Program::Train | Program::Accumulate => true,
            Program::Forward
            | Program::Embed
            | Program::Compare
            | Program::Reduce
            | Program::Update
            | Program::Evaluate
            | Program::Predict
            | Program::Prefill
            | Program::Decode => false,
        }
    }

    /// Whether a training step ends with the program.
    pub(crate) fn ends_step(self) -> bool {
        match self {
            Program::Train | Program::Update => true,
            Program::Forward
            | Program::Embed
            | Program::Compare
            | Program::Accumulate
            | Program::Reduce
            | Program::Evaluate
            | Program::Predict
            | Program::Prefill
            | Program::Decode => false,
        }
    }
}

/// The programs that one step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepPrograms {
    /// One program, which computes the gradients of the step's only batch and updates.
    Fused,
    /// One program a batch, which adds its gradients to sums, and one that updates.
    Accumulated,
}

impl StepPrograms {
    /// The program that takes a batch.
    pub fn batch_program(self) -> Program {
        match self {
            StepPrograms::Fused => Program::Train,
            StepPrograms::Accumulated => Program::Accumulate,
        }
    }

    /// The shapes of all programs for batches of `sizes`.
    pub fn shapes(self, sizes: impl IntoIterator<Item = BatchSizes>) -> Vec<ProgramShape> {
        let program = self.batch_program();
        let batches = sizes.into_iter().map(|sizes| ProgramShape::of_batch(program, sizes));
        let update = match self {
            StepPrograms::Fused => None,
            StepPrograms::Accumulated => Some(ProgramShape::update()),
        };
        batches.chain(update).collect()
    }
}

/// A program and the batch of one core that it is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramShape {
    /// The kind of program.
    pub program: Program,
    /// The sizes of its batch; none of an update.
    pub sizes: BatchSizes,
    /// The chunk of the model, or any chunk of the stage. Absent where one program has the whole model.
    pub chunk: Option<usize>,
    /// The part of a stage's update.
    pub part: usize,
}

impl ProgramShape {
    /// A program of the whole model.
    pub fn of_batch(program: Program, sizes: BatchSizes) -> ProgramShape {
        ProgramShape { program, sizes, chunk: None, part: 0 }
    }

    /// An update takes no batch.
    pub fn update() -> ProgramShape {
        ProgramShape::of_batch(Program::Update, BatchSizes::default())
    }

    /// A comparison takes what a batch of `sizes` has left in the cache, and so depends on its set alone.
    pub fn compare(sizes: &BatchSizes) -> ProgramShape {
        let of_set = [BatchAxis::Sequences, BatchAxis::Objective];
        let copied = |all: BatchSizes, axis| all.with(axis, sizes.get(axis) as u32);
        ProgramShape::of_batch(
            Program::Compare,
            of_set.into_iter().fold(BatchSizes::default(), copied),
        )
    }

    /// The program of the same name for a chunk.
    pub(crate) fn of_chunk(self, chunk: usize) -> ProgramShape {
        ProgramShape { chunk: Some(chunk), ..self }
    }

    /// The name that no other program of the run has.
    pub fn key(&self) -> String {
        let chunk = self.chunk.map_or(String::new(), |chunk| format!("-part{chunk}"));
        let part = if self.part > 0 { format!(".{}", self.part) } else { String::new() };
        format!("{}{chunk}{part}-{}", self.program.name(), self.sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_several_batches_has_an_update_of_its_own() {
        let keys = |programs: StepPrograms| -> Vec<String> {
            let sizes =
                [32, 64].map(|length| BatchSizes::of_rows(4).with(BatchAxis::Positions, length));
            programs.shapes(sizes).iter().map(ProgramShape::key).collect()
        };
        assert_eq!(keys(StepPrograms::Fused), ["train_step-4x32", "train_step-4x64"]);
        assert_eq!(
            keys(StepPrograms::Accumulated),
            ["accumulate_step-4x32", "accumulate_step-4x64", "update_step-0"]
        );
    }
}
